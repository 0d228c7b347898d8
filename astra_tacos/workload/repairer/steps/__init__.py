"""The steps of a repair, in the order in which they are taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from astra_tacos.rules.rule import Finding, Severity
from astra_tacos.workload.repairer.draft import Draft, Log
from astra_tacos.workload.repairer.steps import collectives, groups, messages, nodes, system


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a repair.

    Parameters
    ----------
    codes
        Findings of `lint` that it mends.
    leaves_warnings
        Whether it mends them only where they are errors.
    apply
        Changes the run and logs every change; its docstring says what it does, and why. It raises ConfigError where the run
        has such a fault and nothing says how to mend it.
    """

    name: str
    codes: tuple[str, ...]
    apply: Callable[[Draft, Log], None]
    leaves_warnings: bool = False

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return self.explanation.splitlines()[0]

    @property
    def explanation(self) -> str:
        """What it does, and why."""
        return inspect.cleandoc(self.apply.__doc__ or "")


STEPS: tuple[Step, ...] = (
    Step("compressed-traces", ("F09",), nodes.decompress),
    Step("rank-count", ("F06", "F07"), nodes.fit_ranks),
    Step("duplicate-ids", ("F08",), nodes.renumber),
    Step("attribute-values", ("A02", "A03"), nodes.convert_values),
    Step("dangling-dependencies", ("D01",), nodes.drop_dangling),
    Step("process-groups", ("G04",), groups.define_groups),
    Step("metadata-nodes", ("A12",), nodes.drop_metadata),
    Step("cpu-collectives", ("A11",), nodes.mend_cpu_communication),
    Step("group-names", ("G01", "G05"), groups.number_groups),
    Step("group-members", ("G02", "G03", "G04", "G06", "G07"), groups.complete_groups),
    Step("collective-patterns", ("A15",), collectives.mend_patterns),
    Step("collective-sizes", ("A01", "A06"), collectives.find_sizes),
    Step("lonely-collectives", ("G08", "A04", "A05"), collectives.drop_idle),
    Step("matching-collectives", ("C01", "C02", "C03"), collectives.match_ranks),
    Step("message-pairs", ("A01", "A07", "A08", "A09", "A10", "M01", "M02", "M03", "M04", "M05"), messages.pair_messages),
    Step("skipped-nodes", ("A13",), nodes.drop_skipped),
    Step("cycles", ("D02", "D03"), nodes.cut_cycles),
    Step("empty-ranks", ("F08",), nodes.fill_empty),
    Step("network", ("N01",), system.mend_network),
    Step("roofline", ("A18", "S12"), nodes.mend_roofline),
    Step(
        "system", ("S01", "S02", "S03", "S04", "S05", "S06", "S07", "S08", "S09", "S10", "S14", "S16", "S17"), system.mend_system
    ),
    Step("involved-dimensions", ("A17",), collectives.involve_dimensions),
    Step("one-plan-per-group", ("G09",), groups.separate_plans),
    Step("collective-order", ("C04", "C05", "C06", "C07"), collectives.order_collectives),
    Step("stream-numbers", ("C08",), groups.group_all_ranks),
    Step("first-nodes", ("N04",), nodes.delay_first),
    Step("last-nodes", ("A14",), nodes.end_with_compute, leaves_warnings=True),
)


def mending_step(finding: Finding) -> str | None:
    """Name of the step that can mend a finding of `lint`, None if there is none."""
    for step in STEPS:
        if finding.code in step.codes and not (step.leaves_warnings and finding.severity is Severity.WARNING):
            return step.name
    return None
