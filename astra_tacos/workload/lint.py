"""`lint`: all findings of all rules of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from astra_tacos.rules import attributes, custom_collectives, dependencies, files, groups, messages, network, nodes, order, system
from astra_tacos.rules.facts import Facts
from astra_tacos.rules.inputs import Inputs, read_inputs
from astra_tacos.rules.node_facts import UnknownFact
from astra_tacos.rules.rule import Finding, Found, Rule
from astra_tacos.run.backend import Backend
from astra_tacos.run.run import RunInputs
from astra_tacos.support.rows import Answer, Result, Row, Severity, Table
from astra_tacos.workload import replay_rule

_FAMILIES = (
    files,
    network,
    system,
    groups,
    attributes,
    nodes,
    dependencies,
    messages,
    custom_collectives,
    order,
    replay_rule,
)
"""In the order in which their codes are listed."""
_SHOWN_CODES = 4
"""Codes of a brief answer."""
_ALL = [
    rule
    for family in _FAMILIES
    for rule in sorted((value for value in vars(family).values() if isinstance(value, Rule)), key=lambda rule: rule.code)
]
RULES = {rule.code: rule for rule in _ALL}
if len(RULES) != len(_ALL):
    raise ValueError("two rules have one code")


@dataclass(frozen=True, slots=True, repr=False)
class LintReport(Result):
    """The result of `lint`.

    Parameters
    ----------
    findings
        Errors first, then by code.
    errors, warnings
        Number of findings of each code, including those beyond the limit.
    num_npus, num_ranks, num_nodes
        Number of NPUs of the network, and of ranks and nodes of the workload that were read.
    backend
        The network model that the run was checked for.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import RunInputs, lint
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> report = lint(replace(inputs, network=Path("configs/network/torus_4x4.yml")))
    >>> report.num_ranks, len(report.findings) >= len(report.errors)
    (16, True)
    """

    findings: tuple[Finding, ...]
    errors: Mapping[str, int]
    warnings: Mapping[str, int]
    num_npus: int
    num_ranks: int
    num_nodes: int
    backend: Backend

    def to_json(self) -> list[dict[str, Any]]:
        """The findings as values that JSON can represent."""
        return [asdict(finding) for finding in self.findings]

    def title(self) -> str:
        """How many errors and warnings there are, and in which run."""
        run = f"{self.num_ranks:,} ranks of {self.num_nodes:,} nodes on {self.num_npus:,} NPUs, {self.backend}"
        errors, warnings = sum(self.errors.values()), sum(self.warnings.values())
        if not errors and not warnings:
            return f"nothing found in {run}"
        counts = [_count(errors, "error")] * (errors > 0) + [_count(warnings, "warning")] * (warnings > 0)
        code = next(iter(sorted(self.errors) or sorted(self.warnings)))
        return f"{' and '.join(counts)} in {run}; --explain {code} says more about {code}"

    def rows(self) -> list[Row]:
        """A row for each finding, errors first."""
        from astra_tacos.workload.mends import mending

        rows = []
        for finding in self.findings:
            text = f"{finding.where}: {finding.message}" + (f" ({finding.remedy})" if finding.remedy else "")
            rows.append(Row(finding.code, finding.severity, note=text + ("; --fix may mend this" if mending(finding) else "")))
        return rows

    def brief(self) -> Answer:
        """One finding of each of the first codes, and how many more there are."""
        counts = [(severity, *entry) for severity, listed in self._counts() for entry in sorted(listed.items())]
        first = {(row.value, row.name): row for row in reversed(self.rows())}
        rows = []
        for severity, code, count in counts[:_SHOWN_CODES]:
            rows.append(first[severity, code])
            rows += [Row("", note=f"... and {count - 1:,} more of {code} (add --verbose to read all)")] if count > 1 else []
        more = ", ".join(f"{code} ({count:,})" for _, code, count in counts[_SHOWN_CODES:])
        return Answer(self.title(), [*rows, *([Row("more codes (add --verbose to read all)", note=more)] if more else [])])

    def counted(self) -> list[Row]:
        """How many errors and warnings there are, of each code."""
        rows = []
        for severity, counts in self._counts():
            listed = ", ".join(f"{code} ({count:,})" if count > 1 else code for code, count in sorted(counts.items()))
            more = f"{listed}; `astra-tacos lint` on the same files says more"
            rows += [Row(f"lint {severity}s", sum(counts.values()), note=more)] if counts else []
        return rows

    def to_pandas(self) -> Any:
        """The findings as a data frame, with a column for each part of them."""
        columns = ("code", "severity", "where", "what", "remedy")
        table_rows = [
            (finding.code, str(finding.severity), finding.where, finding.message, finding.remedy) for finding in self.findings
        ]
        return Table("findings", columns, table_rows).to_pandas()

    def _counts(self) -> tuple[tuple[Severity, Mapping[str, int]], ...]:
        return (Severity.ERROR, self.errors), (Severity.WARNING, self.warnings)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _is_left_to_timing(counts: Mapping[Severity, Mapping[str, int]]) -> bool:
    """Whether what was found is no error, and some of it stalls the run or not, depending on timing."""
    return not counts[Severity.ERROR] and any(RULES[code].left_to_timing for code in counts[Severity.WARNING])


def lint(inputs: RunInputs, backend: Backend | str | None = None, limit: int | None = None) -> LintReport:
    """Find faults that would make ASTRA-sim stall, abort or compute something else. Bad files are findings, not exceptions.

    If the files show no error, and a warning depends on timing, the run is replayed. A run that stalls in the replay is an error.

    Parameters
    ----------
    inputs
        The files of the run.
    backend
        The network model, or its name; None stands for the network's default (`run.backend`).
    limit
        Most findings of a code and severity in `findings`; all are counted. None for no limit.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import RunInputs, lint
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> report = lint(replace(inputs, network=Path("configs/network/torus_4x4.yml")))
    >>> dict(report.errors)
    {}
    """
    return lint_inputs(read_inputs(inputs, backend), limit)


def lint_inputs(inputs: Inputs, limit: int | None = None) -> LintReport:
    """Find faults of a run that was read, wherever its nodes are."""
    facts = Facts(inputs)
    findings: list[Finding] = []
    counts: dict[Severity, dict[str, int]] = {severity: {} for severity in Severity}
    for rule in RULES.values():
        if rule.settles_timing and not _is_left_to_timing(counts):
            continue
        with suppress(UnknownFact):
            for fault in rule.find(facts):
                texts: Iterator[Found]
                if isinstance(fault, Found):
                    severity, number, texts = fault.severity or rule.severity, 1, iter((fault,))
                else:
                    severity, number = rule.severity, len(fault.rows)
                    texts = map(fault.describe, fault.rows[:limit].tolist())
                if number:
                    seen = counts[severity].get(rule.code, 0)
                    counts[severity][rule.code] = seen + number
                    for text in islice(texts, None if limit is None else max(limit - seen, 0)):
                        findings.append(Finding(rule.code, severity, text.message, text.remedy, text.file, text.rank, text.node))
    findings.sort(key=lambda finding: (finding.severity != Severity.ERROR, finding.code))
    trace = facts.inputs.workload.trace
    return LintReport(
        findings=tuple(findings),
        errors=counts[Severity.ERROR],
        warnings=counts[Severity.WARNING],
        num_npus=facts.num_npus,
        num_ranks=len(facts.inputs.workload.ranks),
        num_nodes=trace.num_nodes if trace else 0,
        backend=facts.inputs.backend,
    )
