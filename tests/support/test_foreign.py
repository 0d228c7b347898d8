"""Files of other tools that people take for inputs are refused by their names, in one line that says what to do."""

from __future__ import annotations

import pytest
from helpers.command import run

JSON_NETWORK = '{"topology-name": "Hierarchical", "topologies-per-dim": ["Ring"], "dimensions-count": 1, "link-latency": [500]}'
SYSTEM = "scheduling-policy: LIFO\nendpoint-delay: 10\nall-reduce-implementation: ring\n"
WORKLOAD = "{}\n1\nlayer -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1000 1\n"
PLAN = (
    '{"name": "a", "collective": "allgather", "protocol": "Simple", "inplace": true, "gpus": [{"id": 0, "inputChunks": 1, '
    '"outputChunks": 2, "scratchChunks": 0, "chunkGroups": 1, "threadblocks": [], "channels": []}]}'
)
HWLOC = '<topology version="2.0">\n  <object type="Machine" os_index="0"/>\n</topology>\n'
DOCUMENT = '<?xml version="1.0"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n'
NCCL = '<!-- of a machine -->\n<system version="1"><cpu numaid="0"/></system>\n'
CHAKRA = '{\n  "version": "0.0.4"\n}{\n  "id": "1",\n  "name": "a"\n}'
CHAKRA_ATTRIBUTES = '{\n  "attr": [\n    {\n      "name": "schema",\n      "stringVal": "1.1.1"\n    }\n  ]\n}{\n  "name": "a"\n}'
GOAL = "// ring\nnum_ranks 2\n\nrank 0 {\nl1: send 8b to 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"
UCC = (
    "Collective:             Allreduce\nMemory type:            Cuda\nDatatype:               float32\n"
    "Reduction:              sum\nInplace:                0\n\n       Count        Size                Time, us\n"
    "                                 avg         min         max\n         128         512       10.05        9.98       10.11\n"
)
TAGGED_UCC = "".join(f"[1,0]<stdout>:{line}\n" for line in UCC.splitlines())
OSU = "# OSU MPI-CUDA Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n4                      12.40\n"
LINES = '{"level": "info", "msg": "start"}\n{"level": "info", "msg": "end"}\n'
AS_JSON = "is a Chakra trace as JSON, which chakra_jsonizer writes to be looked at, expected the binary file (.et)"
READ = "convert the file with `astra-tacos network read FILE --output DIR`"


@pytest.mark.parametrize(
    ("name", "text", "arguments", "message"),
    [
        ("n.json", JSON_NETWORK, "inspect", "is a network file of ASTRA-sim 1.0"),
        (
            "n.json",
            JSON_NETWORK,
            "synthesize --size 1MiB --output o --network",
            "is a network file of ASTRA-sim 1.0",
        ),
        ("n.json", JSON_NETWORK, "network read --output o", "is a network file of ASTRA-sim 1.0"),
        ("s.txt", SYSTEM, "inspect", "is a system file of ASTRA-sim 1.0"),
        ("s.json", SYSTEM, "inspect", "is a system file of ASTRA-sim 1.0"),
        ("w.txt", WORKLOAD.format("DATA"), "inspect", "is a workload of ASTRA-sim 1.0"),
        ("w.txt", WORKLOAD.format("MODEL"), "verify", "is a workload of ASTRA-sim 1.0"),
        ("w.txt", WORKLOAD.format("MICRO"), "network read --output o", "is a workload of ASTRA-sim 1.0"),
        (
            "w.txt",
            WORKLOAD.format("HYBRID_TRANSFORMER model_parallel_NPU_group: 4"),
            "inspect",
            "is a workload of ASTRA-sim 1.0",
        ),
        ("p.json", PLAN, "inspect", "is an MSCCL++ plan of an older version (keys as inputChunks)"),
        ("p.json", PLAN, "verify", "is an MSCCL++ plan of an older version (keys as inputChunks)"),
        ("h.xml", HWLOC, "inspect", "is hwloc's XML of a machine"),
        ("h.xml", DOCUMENT + HWLOC, "network read --output o", "is hwloc's XML of a machine"),
        ("t.xml", NCCL, "inspect", f"is a topology of NCCL: {READ}"),
        ("t.xml", NCCL, "verify", f"is a topology of NCCL: {READ}"),
        ("t.txt", "3 1 2\n2\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n", "inspect", f"is a topology of ns-3: {READ}"),
        ("t.txt", "6 2 1 1 5 H100\n4 5 \n0 4 1Gbps 1us 0\n", "inspect", f"is a topology of ns-3: {READ}"),
        ("c.json", CHAKRA, "inspect", AS_JSON),
        ("c.json", CHAKRA_ATTRIBUTES, "import --output o", AS_JSON),
        ("c.json", "{}{\n" + '"name": "a"}', "verify", AS_JSON),
        ("c.0.et", CHAKRA_ATTRIBUTES, "inspect", AS_JSON),
        ("c.0.et", CHAKRA, "import --output o", AS_JSON),
        ("ring.goal", GOAL, "inspect", "is a schedule in GOAL"),
        ("ring.goal", GOAL, "calibrate", "is a schedule in GOAL"),
        ("ring.bin", GOAL, "verify", "is a schedule in GOAL"),
        ("ucc.log", UCC, "calibrate", "is what ucc_perftest prints"),
        ("ucc.csv", TAGGED_UCC, "calibrate", "is what ucc_perftest prints"),
        ("osu.txt", OSU, "calibrate", "is what an OSU micro-benchmark prints"),
        ("s.json", LINES, "inspect", "is a log in lines of JSON, expected one JSON object"),
        ("log.json", LINES, "calibrate", "is JSON, a mapping of level, msg in line 1, expected results of nccl-tests"),
        ("i.yaml", "infrastructure:\n  devices: []\n", "inspect", f"is an InfraGraph: {READ}"),
    ],
)
def test_files_of_other_tools_are_named(name, text, arguments, message, tmp_path):
    (tmp_path / name).write_text(text)
    done = run(f"{arguments} {name}", cwd=tmp_path)
    assert done.returncode == 2 and f"{name}: {message}" in done.stderr and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]
