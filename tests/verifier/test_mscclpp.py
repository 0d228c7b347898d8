"""The oracle for MSCCL++ plans: right ones are proven, and whatever is taken from them is missed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from helpers.examples import refused
from helpers.mscclpp_plans import NOP, PLANS, all_gather, all_reduce, local, op, remote, sync, two_blocks
from helpers.networks import topology
from helpers.peers import peers
from helpers.schedules import codes

from astra_tacos.export.candidate import convert
from astra_tacos.solver.summary import summarise_plan
from astra_tacos.support.errors import SynthesisError, VerificationError
from astra_tacos.verifier.program import prove, verify_mscclpp_plan
from astra_tacos.verifier.schedule_oracle import verify

FILES, WHY_NONE = peers("mscclpp_plans/*.json")
IDLE = {
    ("all-reduce", "nop 0.2"),  # what peers read was there from the beginning
    ("two blocks", "nop 0.4"),  # the same thread waits and releases
}
"""Operations, with thread block and place, without which a plan computes the same."""


def judge(plan, folder):
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return verify_mscclpp_plan(path)


@pytest.mark.parametrize("name", PLANS)
def test_right_plans_are_proven_and_become_schedules(name, tmp_path):
    verdict = judge(PLANS[name], tmp_path)
    assert verdict.proven, verdict.violations
    proven = prove(tmp_path / "plan.json")
    for block in ("FullyConnected", "Switch"):
        schedule = convert(proven, topology((block, proven.num_ranks, 50.0, 500.0)), 1 << 20, "pipelined").schedule
        assert not verify(schedule)


def mutants(plan):
    """Plans without one operation of rank 0, or with one index or size changed."""
    for number, block in enumerate(plan["gpus"][0]["threadblocks"]):
        for at, each in enumerate(block["ops"]):
            changed = copy.deepcopy(plan)
            del changed["gpus"][0]["threadblocks"][number]["ops"][at]
            yield f"{each['name']} {number}.{at}", changed
            for key in ("src_buff", "dst_buff"):
                for place in range(len(each.get(key, []))):
                    for what, by in (("index", 1), ("size", 1)):
                        changed = copy.deepcopy(plan)
                        changed["gpus"][0]["threadblocks"][number]["ops"][at][key][place][what] += by
                        yield f"{what} of {each['name']}", changed


@pytest.mark.parametrize("name", PLANS)
def test_every_change_is_found(name, tmp_path):
    for what, plan in mutants(PLANS[name]):
        verdict = judge(plan, tmp_path)
        if (name, what) not in IDLE:
            assert verdict.violations, (what, plan["gpus"][0])


def with_ordinary_signals(path):
    """A plan with ordinary signals in place of relaxed ones."""
    return json.loads(path.read_text(encoding="utf-8").replace("rlx", ""))


@pytest.mark.skipif(not FILES, reason=WHY_NONE)
def test_every_change_of_others_plans_is_found(tmp_path):
    """All but `nop`s before what was there from the beginning, and a copy that nothing reads."""
    idle = {("reduce", "copy 0.0")}
    for path in FILES:
        kept = set()
        for what, plan in mutants(with_ordinary_signals(path)):
            if judge(plan, tmp_path).proven:
                kept.add((path.stem, what))
        assert {each for each in kept if not each[1].startswith("nop ")} <= idle, path.name
        assert not any(what.startswith(("index", "size")) for _, what in kept)


def ops(plan, rank=0, block=0):
    found: list[dict[str, Any]] = plan["gpus"][rank]["threadblocks"][block]["ops"]
    return found


def test_what_is_wrong_is_named(tmp_path):
    plan = all_gather(2)
    del ops(plan)[1]  # threads signal before others have written, so a reader behind the wait would race
    ops(plan, 1).extend([NOP, op("copy", [local("o", 0)], [local("o", 1)])])
    assert "race" in codes(judge(plan, tmp_path))
    plan = all_gather(2)
    ops(plan).insert(0, ops(plan)[-1])
    ops(plan, 1).insert(0, ops(plan, 1)[-1])
    assert codes(judge(plan, tmp_path)) == {"deadlock"}
    plan = all_reduce(2)
    ops(plan).append({"name": "barrier", "barrier_id": 0, "num_threadblocks": 2})
    assert "barrier-count" in codes(judge(plan, tmp_path))
    plan = all_reduce(2)
    ops(plan).extend([{"name": "nop"}] * 70)
    assert codes(judge(plan, tmp_path)) == {"limit"}


@pytest.mark.parametrize("joined", [True, False])
def test_a_signal_orders_only_reads_that_all_threads_have_ended(joined, tmp_path):
    """Rank 1 overwrites the scratch chunk of rank 0 as soon as one thread of rank 0 says that it was read."""
    plan = two_blocks()
    ops(plan, 0, 1).extend([NOP] * joined + [sync("signal", 0)])
    ops(plan, 1, 1).extend([sync("wait", 0), NOP, op("put", [local("i", 0)], [remote(0, 0)], channel_type="memory")])
    assert codes(judge(plan, tmp_path)) == (set() if joined else {"race"})


def test_what_the_oracle_has_no_model_of_is_refused(tmp_path):
    plan = all_reduce(2)
    ops(plan).append({"name": "pipeline", "iter_context": {"unit_size": 16, "num_chunks": 1}, "ops": []})
    verdict = judge(plan, tmp_path)
    assert not verdict.proven and "gpu 0, tb 0, op 7: pipeline" in str(verdict.unchecked)
    assert "does not say what 'custom'" in str(judge(all_reduce(2) | {"collective": "custom"}, tmp_path).unchecked)


@pytest.mark.parametrize(
    "kind, at, name, why",
    [
        ("memory", 0, "ppkt", "op 0: ppkt takes packets, and no order"),
        ("memory", 2, "rlxsignal", "op 2: rlxsignal is a relaxed signal, and no order"),
        ("memory", 3, "rlxwait", "op 3: rlxwait is a relaxed signal, and no order"),
        ("port", 0, "put", "op 0: put takes a port channel, and no order"),
        ("port", 0, "pws", "op 0: pws takes a port channel, and no order"),
    ],
)
def test_what_signals_do_not_order_is_not_proven(kind, at, name, why, tmp_path):
    """The plan is read, and the verdict, `inspect` and `import` say why it is not proven."""
    plan = all_gather(2, kind)
    ops(plan)[at]["name"] = name
    verdict = judge(plan, tmp_path)
    assert not verdict.proven and not verdict.violations and why in str(verdict.unchecked)
    assert verdict.num_messages is None
    assert summarise_plan(tmp_path / "plan.json")["proven"] is False
    with refused(why, VerificationError):
        prove(tmp_path / "plan.json")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda plan: plan.pop("protocol"), "protocol is missing"),
        (lambda plan: ops(plan)[3].update(name="jump"), r"ops\[3\]: name is 'jump', expected one of"),
        (lambda plan: ops(plan)[3]["src_buff"][1].update(buffer_id=7), "buffer_id is 7, expected a whole number, 0 to 0"),
        (lambda plan: plan["gpus"][1].update(id=0), "id is 0, expected 1"),
        (lambda plan: plan["gpus"][0].update(input_chunks=3), "3 chunks of input and 2 of output do not fit|gpu 1"),
    ],
)
def test_malformed_plans_are_refused_in_one_line(change, message, tmp_path):
    plan = copy.deepcopy(all_reduce(2))
    change(plan)
    with refused(message):
        judge(plan, tmp_path)


@pytest.mark.skipif(not FILES, reason=WHY_NONE)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_plans_of_others(path, tmp_path):
    """Those without packets are proven if their signals are ordinary ones, and as published only then."""
    text = path.read_text(encoding="utf-8")
    is_ordinary = "pkt" not in text and "rlx" not in text
    assert verify_mscclpp_plan(path).proven == is_ordinary == (path.name == "reduce.json")
    assert judge(with_ordinary_signals(path), tmp_path).proven == ("pkt" not in text)
    if "pkt" in text:
        return
    proven = prove(tmp_path / "plan.json")
    network = topology(("FullyConnected", proven.num_ranks, 50.0, 500.0))
    if proven.why_no_schedule:
        assert path.name == "reduce_nvls.json"
        with refused("inside the switch", SynthesisError):
            convert(proven, network, 1 << 20, "pipelined")
    else:
        assert not verify(convert(proven, network, 1 << 20, "pipelined").schedule)
