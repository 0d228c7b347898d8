"""Synthesizers of a user's own, checked when they are registered."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

import numpy as np

from astra_tacos.collective import COLLECTIVES, UNEQUAL
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.support.plugins import Added, add, check_name
from astra_tacos.support.quoted import quoted
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS
from astra_tacos.synthesizer.synthesizer import Synthesizer

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_TAKES = ("problem", "seed")
_RESERVED = (AUTO, "native", "bound", "size")
"""Words of `--synthesizer` and columns of `compare`."""
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_COLUMNS = ("chunk", "channel", "reduces", "start_ns", "end_ns")
Make = TypeVar("Make", bound=Callable[..., Schedule])


def register_synthesizer(name: str, collectives: Iterable[str], *, in_auto: bool = False) -> Callable[[Make], Make]:
    """Make a function of a problem a synthesizer, by the name that `solve`, `compare` and the command line give it.

    Parameters
    ----------
    name
        Lower-case letters, digits and dashes, as in `my-rings`; no synthesizer has it yet.
    collectives
        The collectives that it does: keys of `COLLECTIVES`.
    in_auto
        Whether `auto` tries it, too.

    Returns
    -------
    register
        Takes the function `make(problem)` or `make(problem, seed)`, which returns a `Schedule`, and returns it unchanged. One
        that takes a seed is random: searches try it with several seeds.

    Raises
    ------
    ConfigError
        If the name is taken, a collective is unknown, or the function takes something else.

    Examples
    --------
    >>> from astra_tacos import SYNTHESIZERS, register_synthesizer
    >>> @register_synthesizer("my-direct", ["all-gather"])
    ... def my_direct(problem):
    ...     return SYNTHESIZERS["direct"].make(problem, 0)
    >>> "my-direct" in SYNTHESIZERS
    True
    >>> del SYNTHESIZERS["my-direct"]
    """
    names = {*SYNTHESIZERS, *_RESERVED}
    check_name("register_synthesizer: name", name, _NAME, "letters, digits and dashes like my-rings", names)
    known = frozenset(collectives)
    if isinstance(collectives, str) or not known or (unknown := sorted(known - COLLECTIVES.keys() - set(UNEQUAL))):
        described = quoted(collectives) if isinstance(collectives, str) or not known else quoted(unknown[0])
        raise ConfigError(
            f"register_synthesizer: collectives: found {described}, expected a list out of {', '.join(COLLECTIVES)}"
        )

    def register(make: Make) -> Make:
        if not callable(make):
            raise ConfigError(f"{name}: found {type(make).__name__}, expected a function of (problem) or of (problem, seed)")
        parameters = inspect.signature(make).parameters.values()
        takes = tuple(parameter.name if parameter.kind in _POSITIONAL else f"*, {parameter.name}" for parameter in parameters)
        if takes not in (_TAKES[:1], _TAKES):
            raise ConfigError(f"{name}: a function of ({', '.join(takes)}), expected one of (problem) or of (problem, seed)")

        def made(problem: Problem, seed: int) -> Schedule:
            try:
                schedule = make(problem, seed) if takes == _TAKES else make(problem)
            except (Exception, SystemExit) as error:
                at = extract_tb(error.__traceback__)[-1]
                kind = "" if isinstance(error, AstraTacosError) else f"{type(error).__name__}: "
                raise SynthesisError(f"{kind}{error} ({Path(at.filename).name}:{at.lineno})") from error
            if not isinstance(schedule, Schedule):
                raise SynthesisError(f"returned {type(schedule).__name__}, expected a Schedule")
            if wrong := _why_another(schedule, problem):
                raise SynthesisError(f"returned a schedule of {wrong}")
            return replace(schedule, synthesizer=name)

        SYNTHESIZERS[name] = Synthesizer(made, known, is_random=takes == _TAKES, in_auto=in_auto)
        add(Added("synthesizer", name, ", ".join(sorted(known)), SYNTHESIZERS))
        return make

    return register


def _why_another(schedule: Schedule, problem: Problem) -> str:
    """How a schedule differs from one of a problem; "" if it does not. The oracle takes links and chunks from the schedule."""
    topology, network = schedule.topology, problem.topology
    if not isinstance(topology, Topology) or not all(
        np.array_equal(getattr(topology, name), getattr(network, name))
        for name in ("link_src", "link_dst", "link_bandwidth_gibps", "link_latency_ns")
    ):
        return f"another network, expected the links of {network.name}"
    collective, expected = schedule.collective, problem.collective
    for name in ("name", "num_npus", "size_bytes", "root"):
        if getattr(collective, name) != getattr(expected, name):
            return f"another collective: its {name} is {getattr(collective, name)}, expected {getattr(expected, name)}"
    if collective.member_npus.tolist() != expected.member_npus.tolist():
        return "another collective: its members are others"
    timing, delays = schedule.timing, problem.timing
    if (timing.link_model, timing.reduce_bandwidth_gbps) != (delays.link_model, delays.reduce_bandwidth_gbps):
        return f"another link model: {timing.link_model}, expected {delays.link_model}"
    columns = [getattr(schedule, name) for name in _COLUMNS]
    if any(not isinstance(column, np.ndarray) or column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        return f"unequal columns, expected arrays of one length: {', '.join(_COLUMNS)}"
    for name, column, most in (("chunk", columns[0], collective.num_chunks), ("channel", columns[1], topology.num_channels)):
        if column.dtype.kind not in "iu" or (len(column) and not 0 <= int(column.min()) <= int(column.max()) < most):
            return f"a wrong {name}, expected whole numbers from 0 to {most - 1:,}"
    return ""
