"""What `lint --fix` does about faults, in the order in which it is done."""

from __future__ import annotations

from astra_tacos.rules.rule import Finding
from astra_tacos.support.rows import Severity
from astra_tacos.workload.mends import (
    attributes,
    collectives,
    dependencies,
    groups,
    messages,
    network,
    nodes,
    ranks,
    roofline,
    system,
)
from astra_tacos.workload.mends.mend import Mend

MENDS: tuple[Mend, ...] = (
    ranks.decompress,
    ranks.fit_ranks,
    nodes.renumber,
    attributes.convert_values,
    dependencies.drop_dangling,
    groups.define_groups,
    nodes.drop_metadata,
    nodes.mend_cpu_communication,
    groups.number_groups,
    groups.complete_groups,
    collectives.mend_patterns,
    collectives.find_sizes,
    collectives.drop_idle,
    collectives.match_ranks,
    messages.pair_messages,
    nodes.drop_skipped,
    dependencies.cut_cycles,
    ranks.fill_empty,
    network.mend_network,
    roofline.mend_roofline,
    system.mend_system,
    collectives.involve_dimensions,
    groups.separate_plans,
    collectives.order_collectives,
    groups.group_all_ranks,
    ranks.delay_first,
    ranks.end_with_compute,
)


def mending(finding: Finding) -> str | None:
    """Name of the mend of a finding of `lint`, None if there is none."""
    for mend in MENDS:
        if finding.code in mend.codes and not (mend.leaves_warnings and finding.severity is Severity.WARNING):
            return mend.name
    return None
