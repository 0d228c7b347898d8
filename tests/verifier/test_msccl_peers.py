"""MSCCL XML that others wrote, and changed copies of it; judged by the oracle and by an interpreter that runs it with numbers.

The files are read where they are: `$ASTRA_TACOS_PEERS`, or `../shared/peers` beside the checkout.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest
from helpers.msccl_interpreter import computes_its_collective
from helpers.msccl_mutants import KINDS, mutate
from helpers.peers import peers

from astra_tacos.verifier.program import verify_msccl_xml

FILES, WHY_NONE = peers("msccl_xml/*/*.xml", "msccl_xml_minbytes/*.xml", "measured_rccl_8/xml/*.xml")
BY_NAME = {path.name: path for path in FILES}
WRONG = {
    # Benchmarks of links that call themselves allgather: 14 or 2 chunks do not hold what 8 GPUs gather.
    "all2all.xml": {"chunk-absent", "chunk-missing", "chunk-wrong"},
    "all2one.xml": {"chunk-absent", "chunk-missing", "chunk-wrong"},
    "peer2peer.xml": {"chunk-absent", "chunk-missing", "chunk-wrong"},
    # Both ends of every connection receive first and send then.
    "output_nvswitch16_AllGather_Fast_64MB_msccl_annotated.xml": {"deadlock"},
    "output_nvswitch16_AllGather_Fast_64MB_msccl_strict.xml": {"deadlock"},
}
COLLECTIVES = {"allreduce": "all-reduce", "allgather": "all-gather", "alltoall": "all-to-all"}
MUTATED = (
    "ncv4_ag_hier_4_LL.xml",
    "ncv4_ar_hier_12_Simple.xml",
    "ncv4_ar_tree_12_LL.xml",
    "ndv4_a2a2ll.xml",
    "ndv4_r48ll.xml",
    "test.xml",
)
"""All step types, buffers and collectives that these files have, in small ones."""

EQUIVALENT = ("dropped dependency", "earlier dependency", "other dependency", "swapped", "swapped blocks", "type")
"""Kinds of changes that may change nothing: an order that others imply, like transfers in turn, what nothing reads."""

pytestmark = pytest.mark.skipif(not FILES, reason=WHY_NONE)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_each_file_is_proven_or_wrong_as_a_run_with_numbers_is(name: str) -> None:
    verdict = verify_msccl_xml(BY_NAME[name])
    coll = ElementTree.parse(BY_NAME[name]).getroot().attrib["coll"]
    assert verdict.collective == COLLECTIVES[coll]
    assert {violation.code for violation in verdict.violations} == WRONG.get(name, set())
    assert verdict.proven == (name not in WRONG) == computes_its_collective(BY_NAME[name], seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_proven_only_if_it_still_computes_its_collective(tmp_path: Path, kind: str) -> None:
    random = Random(kind)
    proven = changed = 0
    for name in MUTATED:
        for _ in range(2):
            root = ElementTree.parse(BY_NAME[name]).getroot()
            if not mutate(root, kind, random.randrange):
                break
            changed += 1
            path = tmp_path / name
            path.write_bytes(ElementTree.tostring(root))
            if verify_msccl_xml(path).proven:
                proven += 1
                assert all(computes_its_collective(path, seed) for seed in range(4)), f"{name}, {kind}"
    assert changed > 0
    assert proven == 0 or kind in EQUIVALENT
