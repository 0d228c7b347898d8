"""What a sketch leaves of a network, and the bounds with the sketch and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from astra_tacos.bounds import lower_bound
from astra_tacos.bounds.bound import Bound
from astra_tacos.bounds.certificate import efficiency_of
from astra_tacos.network.sketch import Sketch
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.problem import Problem
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.support.units import format_time


@dataclass(frozen=True, slots=True)
class SketchCost:
    """The cost of a sketch.

    Parameters
    ----------
    links, left_out
        Links that it leaves, and links that it does not.
    bound, bound_without_ns
        Lower bounds under the sketch, and of the whole network in ns.
    efficiency
        Share of the bound under the sketch that the schedule reaches; None without a bound.
    """

    sketch: Sketch
    links: int
    left_out: int
    bound: Bound
    bound_without_ns: int
    efficiency: float | None

    @classmethod
    def of(cls, sketch: Sketch, searched: Topology, schedule: Schedule) -> SketchCost:
        """The cost of a sketch that leaves the topology `searched`, for a schedule that was found there."""
        topology, own_timing = schedule.topology, schedule.timing.of(searched, schedule.collective)
        with_it, without = lower_bound(Problem(searched, schedule.collective, own_timing)), lower_bound(schedule.problem)
        larger = max(with_it, without, key=lambda bound: bound.time_ns)  # what bounds any algorithm bounds those under the sketch
        efficiency = efficiency_of(schedule.collective_time_ns, larger.time_ns)
        left_out = topology.num_links - searched.num_links
        return cls(sketch, searched.num_links, left_out, larger, without.time_ns, efficiency)

    def to_json(self) -> dict[str, Any]:
        """Its figures, ready for JSON."""
        return {
            "file": str(self.sketch.path),
            "links": self.links,
            "links_left_out": self.left_out,
            "bound_ns": self.bound.time_ns,
            "bound_without_ns": self.bound_without_ns,
            "bound": self.bound.name,
            "bound_where": self.bound.where,
            "efficiency": self.efficiency,
        }

    def describe(self) -> str:
        """The cost in a line."""
        more = self.bound.time_ns / max(self.bound_without_ns, 1) - 1
        # A bound that no algorithm reaches may lie anywhere below the best time, so a ratio of bounds proves no cost by itself.
        cost = f"at least {more:.1%} slower than what reaches the latter" if more > 0.0005 else "no bound knows of a cost"
        share = "" if self.efficiency is None else f"; the schedule is at {self.efficiency:.1%} of the former"
        text = f"{self.sketch.path} leaves out {self.left_out:,} of {self.links + self.left_out:,} links: "
        bounds = f"bound {format_time(self.bound.time_ns)} under it, {format_time(self.bound_without_ns)} without"
        return f"{text}{bounds}: {cost}{share}"
