"""Synthesizers of a user's own, checked when they are registered."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

from astra_tacos.collective import COLLECTIVES, UNEQUAL
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.errors import AstraTacosError, ConfigError, SynthesisError
from astra_tacos.support.quoted import quoted
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS
from astra_tacos.synthesizer.synthesizer import Synthesizer

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_TAKES = ("problem", "seed")
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
    if not _NAME.fullmatch(name):
        raise ConfigError(f"register_synthesizer: name: found {quoted(name)}, expected letters, digits and dashes like my-rings")
    if name in SYNTHESIZERS or name == AUTO:
        raise ConfigError(f"register_synthesizer: name: {quoted(name)} is a synthesizer already, expected another name")
    known = frozenset(collectives)
    if isinstance(collectives, str) or not known or (unknown := sorted(known - COLLECTIVES.keys() - set(UNEQUAL))):
        found = quoted(collectives) if isinstance(collectives, str) or not known else quoted(unknown[0])
        raise ConfigError(f"register_synthesizer: collectives: found {found}, expected a list out of {', '.join(COLLECTIVES)}")

    def register(make: Make) -> Make:
        takes = tuple(inspect.signature(make).parameters)
        if takes not in (_TAKES[:1], _TAKES):
            raise ConfigError(f"{name}: a function of ({', '.join(takes)}), expected one of (problem) or of (problem, seed)")

        def made(problem: Problem, seed: int) -> Schedule:
            try:
                schedule = make(problem, seed) if takes == _TAKES else make(problem)
            except Exception as error:
                at = extract_tb(error.__traceback__)[-1]
                kind = "" if isinstance(error, AstraTacosError) else f"{type(error).__name__}: "
                raise SynthesisError(f"{kind}{error} ({Path(at.filename).name}:{at.lineno})") from error
            if not isinstance(schedule, Schedule):
                raise SynthesisError(f"returned {type(schedule).__name__}, expected a Schedule")
            return replace(schedule, synthesizer=name)

        SYNTHESIZERS[name] = Synthesizer(made, known, is_random=takes == _TAKES, in_auto=in_auto)
        return make

    return register
