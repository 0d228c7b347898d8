"""The policies, one file each."""

from __future__ import annotations

from astra_tacos.planner.retime.policies import decouple, fuse, pipeline, priority, reorder, split
from astra_tacos.planner.retime.policy import Policy

POLICIES: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        reorder.POLICY,
        pipeline.POLICY,
        fuse.POLICY,
        split.POLICY,
        decouple.POLICY,
        priority.POLICY,
    )
}
"""Policies by the name that `plan --schedule` takes; `search` tries combinations in this order."""
