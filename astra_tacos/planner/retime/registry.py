"""Policies of `plan --schedule` of a user's own, checked when they are registered."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from astra_tacos.planner.request import SEARCH
from astra_tacos.planner.retime.policies import POLICIES
from astra_tacos.planner.retime.policy import Option, Policy, Setting
from astra_tacos.planner.retime.request import AS_IS, FIFO, SYSTEMS
from astra_tacos.planner.retime.tasks import TaskGraph
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.plugins import Added, add, check_name

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_TAKES = ("graph", "setting", "values")
Apply = Callable[[TaskGraph, Setting, Mapping[str, Any]], list[str]]


def register_policy(
    name: str,
    summary: str,
    options: Mapping[str, Option] | None = None,
    variants: Iterable[Mapping[str, Any]] = (),
) -> Callable[[Apply], Apply]:
    """Make a function a policy of `plan --schedule`; `--schedule search` tries the policy, too.

    Parameters
    ----------
    name
        Lower-case letters, digits and dashes; neither a policy nor a system has the name yet.
    summary
        What help says about the policy.
    options
        The options of the policy by name, each a `PolicyOption`.
    variants
        Values of options that a search tries beside the defaults.

    Returns
    -------
    register
        Takes the function `apply(graph, setting, values)`, and returns the function unchanged. It changes the `TaskGraph` in
        place, and returns a list of what it could not do, a line each. Of the collectives (`graph.operations`) that could start,
        the one with the smallest `urgency`, a tuple, goes first.

    Raises
    ------
    ConfigError
        If the name is taken, an option or a variant is wrong, or the function takes something else.

    Examples
    --------
    >>> from astra_tacos import register_policy
    >>> @register_policy("small-first", "the smallest collective goes first")
    ... def small_first(graph, setting, values):
    ...     for operation in graph.operations:
    ...         operation.urgency = (operation.size_bytes,)
    ...     return []
    >>> from astra_tacos.planner.retime.policies import POLICIES
    >>> del POLICIES["small-first"]
    """
    names = {*POLICIES, *SYSTEMS, AS_IS, SEARCH, FIFO}
    check_name("register_policy: name", name, _NAME, "letters, digits and dashes like small-first", names)
    known, tried = dict(options or {}), tuple(variants)
    for values in tried:
        if unknown := sorted(values.keys() - known):
            raise ConfigError(f"policy {name}: variants: found {unknown[0]!r}, expected {' or '.join(known) or 'no options'}")

    def register(apply: Apply) -> Apply:
        takes = tuple(inspect.signature(apply).parameters) if callable(apply) else (type(apply).__name__,)
        if takes != _TAKES:
            raise ConfigError(f"policy {name}: a function of ({', '.join(takes)}), expected one of ({', '.join(_TAKES)})")

        @functools.wraps(apply)
        def applied(graph: TaskGraph, setting: Setting, values: Mapping[str, Any]) -> list[str]:
            notes = apply(graph, setting, values)
            if not isinstance(notes, list):
                raise ConfigError(f"policy {name}: returned {type(notes).__name__}, expected a list of notes, [] for none")
            return notes

        POLICIES[name] = Policy(name, summary, applied, known, lambda graph: tried)
        add(Added("policy of plan --schedule", name, summary, POLICIES))
        return apply

    return register
