"""Rules of `lint` of a user's own, checked when they are registered."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable

from astra_tacos.rules.facts import Facts
from astra_tacos.rules.rule import Findings, Found, FoundRows, Rule
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.plugins import Added, add, check_name
from astra_tacos.support.rows import Severity
from astra_tacos.workload.lint import RULES

_CODE = re.compile(r"[A-Z][0-9]{2}")
Find = Callable[[Facts], Findings]


def register_rule(code: str, title: str, severity: str = "error") -> Callable[[Find], Find]:
    """Make a function a rule of `lint`, after all other rules.

    Parameters
    ----------
    code
        A letter and two digits. No rule of this package begins with X.
    title
        What `lint --list` says about the rule.
    severity
        `error` or `warning`.

    Returns
    -------
    register
        Takes the function `find(facts)`, and returns the function unchanged. It yields a `Found` for each fault of the run; for
        faults of nodes, `facts.workload.each(rows, message, remedy)`. Its docstring is what `lint --explain` prints.

    Raises
    ------
    ConfigError
        If the code is taken, the severity is unknown, or the function has no docstring.

    Examples
    --------
    >>> from astra_tacos import Found, register_rule
    >>> @register_rule("X01", "odd number of NPUs", "warning")
    ... def odd(facts):
    ...     \"\"\"The network has an odd number of NPUs.\"\"\"
    ...     if facts.num_npus % 2:
    ...         yield Found(f"{facts.num_npus} NPUs", "use an even number")
    >>> from astra_tacos.workload.lint import RULES
    >>> del RULES["X01"]
    """
    check_name("register_rule: code", code, _CODE, "a letter and two digits like X01", RULES)
    if severity not in tuple(Severity):
        raise ConfigError(f"register_rule: severity: found {severity!r}, expected {' or '.join(Severity)}")

    def register(find: Find) -> Find:
        if not callable(find) or len(inspect.signature(find).parameters) != 1:
            raise ConfigError(f"rule {code}: found {getattr(find, '__name__', find)!r}, expected a function of (facts)")
        if not find.__doc__:
            raise ConfigError(f"rule {code}: {find.__name__} has no docstring, expected the text that --explain prints")

        @functools.wraps(find)
        def found(facts: Facts) -> Findings:
            findings = find(facts)
            if not inspect.isgenerator(findings):
                raise ConfigError(f"rule {code}: returned {type(findings).__name__}, expected a function that yields findings")
            for finding in findings:
                if not isinstance(finding, Found | FoundRows):
                    raise ConfigError(f"rule {code}: yielded {type(finding).__name__}, expected Found")
                yield finding

        RULES[code] = Rule(code, Severity(severity), title, found)
        add(Added("rule of lint", code, title, RULES))
        return find

    return register
