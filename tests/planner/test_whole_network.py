"""Plans that also tell what relays and synthesis of all groups together would gain."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from helpers.lint_runs import RunFiles, coll, comp
from helpers.plans import QUICK, contents, lint_plan, planned, quickly_planned, written

from astra_tacos.planner import whole_network
from astra_tacos.planner.plan import plan
from astra_tacos.planner.plan_result import PlanResult
from astra_tacos.planner.run_files import RunInputs
from astra_tacos.planner.solution import PLAN_OPTIONS
from astra_tacos.planner.synthesis import solve
from astra_tacos.planner.synthesis_cache import SynthesisCache
from astra_tacos.planner.whole_network import Asked
from astra_tacos.planner.whole_network_schedule import on_whole_network
from astra_tacos.planner.workload import find_workload
from astra_tacos.replayer.schedule_replay import replay_schedule
from astra_tacos.run.backend import CONGESTION_UNAWARE
from astra_tacos.schedule.schedule import Schedule
from astra_tacos.schedule.storage import load_schedule
from astra_tacos.synthesizer.search.search_options import SearchOptions
from astra_tacos.topology.composition import build_topology
from astra_tacos.trace.schema import CommType
from astra_tacos.verifier.schedule_oracle import verify, verify_together

FEW = replace(PLAN_OPTIONS, max_sends=1_500, trials=1)
"""Smaller searches by the same synthesizers."""
BOTH = Asked(with_relays=True, together=True)
STRIDED = [list(range(first, 8, 2)) for first in range(2)]
ROWS = [list(range(first, first + 4)) for first in range(0, 16, 4)]
EVERYTHING = ("plan.json", "workload", "collective", "comm_group.json", "per_node.yml", "system.json")


def grouped(
    groups: list[list[int]], comm_type: CommType, size: int, topology: tuple[str, ...], npus: tuple[int, ...]
) -> RunFiles:
    """Every group runs the same collective, and then all ranks another one."""
    of_rank = {rank: number for number, group in enumerate(groups, 1) for rank in group}
    ranks = [
        [comp(0, us=3), coll(1, [0], comm_type, size, of_rank[rank]), coll(2, [1], size=1 << 14)] for rank in sorted(of_rank)
    ]
    named = {str(number): group for number, group in enumerate(groups, 1)}
    return RunFiles(ranks=ranks, groups=named, topology=topology, npus=npus)


RING = grouped(STRIDED, CommType.ALL_GATHER, 1 << 20, ("Ring",), (8,))
TORUS = grouped(ROWS, CommType.ALL_REDUCE, 1 << 20, ("Ring", "Ring"), (4, 4))


@pytest.fixture(scope="module", autouse=True)
def fewer_chunks() -> Iterator[None]:
    """Joint schedules of up to some thousand sends: larger ones are the same, finer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_network, "_JOINT_SENDS", 4_000)
        yield


@dataclass(frozen=True)
class Planned:
    """A plan with both figures, and the cache that it filled."""

    files: RunFiles
    inputs: RunInputs
    result: PlanResult
    after: RunInputs
    output: Path
    cache: Path


@pytest.fixture(scope="module")
def of_ring(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    return with_both(tmp_path_factory.mktemp("ring"), RING)


@pytest.fixture(scope="module")
def of_torus(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    return with_both(tmp_path_factory.mktemp("torus"), TORUS)


def with_both(folder: Path, files: RunFiles) -> Planned:
    inputs = written(folder, files)
    result, after = planned(inputs, folder / "plan", options=FEW, asked=BOTH, cache=folder / "cache")
    return Planned(files, inputs, result, after, folder / "plan", folder / "cache")


def cached(folder: Path) -> list[tuple[dict[str, object], Schedule]]:
    """Identity and schedule of all entries of a cache."""
    paths = sorted(folder.rglob("*.json"))
    return [(json.loads(path.read_text())["identity"], load_schedule(path.with_suffix(".npz"))) for path in paths]


def figures(result: PlanResult, groups: int) -> dict[str, object]:
    case = next(case for case in result.cases if case.groups == groups)
    return case.to_json()


@pytest.mark.parametrize(("fixture", "num_groups"), [("of_ring", 2), ("of_torus", 4)])
def test_both_figures_come_from_schedules_that_the_oracle_passes(
    request: pytest.FixtureRequest, fixture: str, num_groups: int
) -> None:
    both: Planned = request.getfixturevalue(fixture)
    assert lint_plan(both.after).findings == ()
    told = figures(both.result, num_groups)
    entries = cached(both.cache)
    (relayed,) = [schedule for identity, schedule in entries if "relays" in identity]
    joint = [(identity["number"], schedule) for identity, schedule in entries if "together" in identity]
    joint.sort(key=lambda entry: entry[0])
    assert len(joint) == num_groups
    assert relayed.collective.members is not None
    assert relayed.topology.num_npus == len(both.files.ranks)
    assert verify(relayed) == ()
    assert replay_schedule(relayed).collective_time_ns == relayed.collective_time_ns >= told["relay_ns"]
    if told["relay_algorithm"] == "routed":
        assert relayed.collective_time_ns == told["relay_ns"]
        assert relayed.collective.chunks_per_npu == told["relay_chunks_per_npu"]
    at_once = [replace(schedule, topology=joint[0][1].topology) for _, schedule in joint]
    assert verify_together(at_once) == ()
    times = tuple(schedule.collective_time_ns for schedule in at_once)
    assert told["together_predicted_ns"] == max(told["together_groups_ns"]) <= max(times)
    assert len(told["together_alone_ns"]) == num_groups
    assert max(told["together_alone_ns"]) <= told["together_predicted_ns"]


def test_rows_of_a_torus_gain_from_relays_only_alone(tmp_path: Path, of_torus: Planned) -> None:
    """Rows have links of their own, so that all at once take what one takes: with relays an NPU has twice as many links."""
    files = grouped(ROWS, CommType.ALL_REDUCE, 1 << 24, ("Ring", "Ring"), (4, 4))
    again, _ = planned(written(tmp_path, files), tmp_path / "plan", options=FEW, asked=BOTH)
    small, large = (figures(result, 4) for result in (of_torus.result, again))
    for told in (small, large):
        assert told["relay_ns"] <= told["predicted_ns"]
        assert told["together_predicted_ns"] <= told["predicted_ns"]
    assert large["relay_ns"] < 0.8 * large["predicted_ns"]


def test_own_schedules_carry_over_to_the_whole_network(tmp_path: Path) -> None:
    inputs = written(tmp_path, TORUS)
    workload = find_workload(inputs)
    case = next(case for case in workload.cases if len(case.groups) == 4)
    network = build_topology(workload.run.network)
    found = solve(case, workload.run.network, workload.run.system, CONGESTION_UNAWARE, FEW, SynthesisCache(None))
    assert found.schedule is not None
    carried = [on_whole_network(found.schedule, case, group, network) for group in case.groups]
    assert verify_together([each for each in carried if each is not None]) == ()
    assert len(carried) == 4
    assert {replay_schedule(each).collective_time_ns for each in carried if each} == {found.schedule.collective_time_ns}
    # Ranks 0, 2, 8 and 10 have no links: what a row does needs links that they lack.
    assert on_whole_network(found.schedule, case, (0, 2, 8, 10), network) is None


@pytest.mark.parametrize("fixture", ["of_ring", "of_torus"])
def test_the_plan_is_the_same_but_for_figures(request: pytest.FixtureRequest, tmp_path: Path, fixture: str) -> None:
    both: Planned = request.getfixturevalue(fixture)
    shutil.copytree(both.cache, tmp_path / "cache")
    plain, _ = planned(both.inputs, tmp_path / "plain", options=FEW, cache=tmp_path / "cache")
    assert all(case.from_cache for case in plain.cases)
    assert contents(tmp_path / "plain") == contents(both.output)
    assert both.result.after_ns == plain.after_ns
    before, after = (json.loads((output / "plan.json").read_text()) for output in (tmp_path / "plain", both.output))
    for old, new in zip(before["cases"], after["cases"], strict=True):
        assert {key: new[key] for key in old} == old
        assert {key.split("_")[0] for key in set(new) - set(old)} == {"relay", "together"}
    del before["cases"], after["cases"]
    assert before == after


def test_the_same_bytes_for_any_number_of_threads_and_from_the_cache(tmp_path: Path) -> None:
    inputs = written(tmp_path, RING)
    outputs = [tmp_path / f"plan{number}" for number in range(3)]
    planned(inputs, outputs[0], asked=BOTH, options=replace(QUICK, threads=1))
    planned(inputs, outputs[1], asked=BOTH, options=replace(QUICK, threads=3), cache=tmp_path / "cache")
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    planned(inputs, outputs[2], asked=BOTH, options=replace(QUICK, threads=2), cache=tmp_path / "cache")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")} == stamps
    assert contents(outputs[0], EVERYTHING) == contents(outputs[1], EVERYTHING) == contents(outputs[2], EVERYTHING)


def test_nothing_to_tell_of_everyone(tmp_path: Path) -> None:
    """No NPU is left to relay, and no other group to meet."""
    result, _ = quickly_planned(written(tmp_path, RING), tmp_path / "plan", asked=BOTH)
    told = figures(result, 1)
    assert told["relay_ns"] is None
    assert told["together_predicted_ns"] is None


@pytest.mark.parametrize("comm_type", [CommType.ALL_TO_ALL, CommType.REDUCE_SCATTER, CommType.GATHER])
def test_other_patterns(tmp_path: Path, comm_type: CommType) -> None:
    inputs = written(tmp_path, grouped(STRIDED, comm_type, 1 << 16, ("Ring",), (8,)))
    told = figures(plan(inputs, tmp_path / "plan", asked=BOTH), 2)
    assert 0 < told["relay_ns"] <= told["together_predicted_ns"]


def test_chunks_as_asked_for(tmp_path: Path) -> None:
    inputs = written(tmp_path, RING)
    told = figures(planned(inputs, tmp_path / "plan", asked=BOTH, options=SearchOptions(chunks_per_npu=3, trials=4))[0], 2)
    assert told["relay_chunks_per_npu"] == told["together_chunks_per_npu"] == 3
