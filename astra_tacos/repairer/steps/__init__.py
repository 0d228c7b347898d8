"""The steps of a repair, in the order in which they are taken: one file each, and a line here."""

from __future__ import annotations

from astra_tacos.linter.finding import Finding, Severity
from astra_tacos.repairer.step import Step
from astra_tacos.repairer.steps import (
    attribute_values,
    collective_order,
    collective_patterns,
    collective_sizes,
    compressed_traces,
    cpu_collectives,
    cycles,
    dangling_dependencies,
    duplicate_ids,
    empty_ranks,
    first_nodes,
    group_members,
    group_names,
    involved_dimensions,
    last_nodes,
    lonely_collectives,
    matching_collectives,
    message_pairs,
    metadata_nodes,
    network,
    one_plan_per_group,
    process_groups,
    rank_count,
    roofline,
    skipped_nodes,
    stream_numbers,
    system,
)

STEPS: tuple[Step, ...] = (
    compressed_traces.STEP,
    rank_count.STEP,
    duplicate_ids.STEP,
    attribute_values.STEP,
    dangling_dependencies.STEP,
    process_groups.STEP,
    metadata_nodes.STEP,
    cpu_collectives.STEP,
    group_names.STEP,
    group_members.STEP,
    collective_patterns.STEP,
    collective_sizes.STEP,
    lonely_collectives.STEP,
    matching_collectives.STEP,
    message_pairs.STEP,
    skipped_nodes.STEP,
    cycles.STEP,
    empty_ranks.STEP,
    network.STEP,
    roofline.STEP,
    system.STEP,
    involved_dimensions.STEP,
    one_plan_per_group.STEP,
    collective_order.STEP,
    stream_numbers.STEP,
    first_nodes.STEP,
    last_nodes.STEP,
)
"""All steps."""


def mending_step(finding: Finding) -> str | None:
    """Name of the step that can mend a finding of `lint`, None if there is none."""
    for step in STEPS:
        if finding.code in step.codes and not (step.leaves_warnings and finding.severity is Severity.WARNING):
            return step.name
    return None
