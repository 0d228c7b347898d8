"""`astra-tacos optimize`: what it prints and writes, the tutorial's commands, and bad input in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command import answer, invoke
from helpers.generated import write_network

from astra_tacos.cli.main import BAD_INPUT
from astra_tacos.network.network_config import read_network
from astra_tacos.study.optimizer.model import network_shape

REPOSITORY = Path(__file__).parents[2]
LIBRA = {
    "n.yml": "Topology: [Ring, Switch]\nNpusCount: [4, 4]\nCostDimension: [Node, Pod]\n",
    "c.yml": "Forward: [4, -1]\nInputGrad: [4, -1]\nWeightGrad: [-1, 4]\n",
    "m.yml": "Node: {Link: 4}\nPod: {Link: 8, Switch: 18, Nic: 30}\n",
    "w.txt": "a -1 1000 ALLREDUCE 4000000 1000 ALLREDUCE 4000000 1000 ALLREDUCE 2000000 10\n" * 2,
}
COMMAND = "optimize --libra-network n.yml --communicator c.yml --workload w.txt --cost-model m.yml"
SWEPT = {"[ 166.11, 200, 166.93, 150, 100 ]": "[ 166.93 ]", "[ 335.92, 200, 250.27, 250, 300 ]": "[ 250.27 ]"}
"""Values of the tutorial's sweep, each of which is a plan of 64 NPUs, and one of them."""
SPLIT = re.compile(
    r"^(best|best by bytes|equal shares|input \(.*\)|refined) +([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+ +([\d.,]+) us",
    re.MULTILINE,
)
"""A row of a table: the split's name, its bandwidths, and its time."""
FEWER = {" --refine": " --refine-steps 1", "sweep splits.yml": " --workers 1"}
"""By part of a command, an option with which it takes less. One step times the three splits that the refinement starts from."""


@pytest.fixture(autouse=True)
def started_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(REPOSITORY / "configs")
    for name, text in LIBRA.items():
        (tmp_path / name).write_text(text)


def test_json_of_libras_files():
    result = answer(f"{COMMAND} --total-bandwidth 100 --refine --chunks-per-npu 2 --output best.yml")
    best, equal = (result["splits"][name] for name in ("best", "equal shares"))
    # Two demands in a dimension each: bandwidths as the square roots of their bytes (4 x 4 MB, and 2 x 2 MB).
    assert best["bandwidth_gbps"] == pytest.approx([200 / 3, 100 / 3], rel=1e-3)
    assert equal["bandwidth_gbps"] == [50, 50] and result["gain"]["equal shares"] == pytest.approx(
        equal["time_ns"] / best["time_ns"]
    )
    assert best["time_ns"] == pytest.approx(6020 + 1.5 * (16e6 * 3 / 200 + 4e6 * 3 / 100), rel=1e-6)
    assert best["cost"] == pytest.approx(16 * (4 * 200 / 3 + 56 * 100 / 3), rel=1e-3)
    refined = result["refine"]["splits"]["refined"]
    assert refined["time_ns"] <= result["refine"]["splits"]["best by bytes"]["time_ns"]
    shape, split = network_shape(read_network("best.yml"))
    assert split == pytest.approx(refined["bandwidth_gbps"]) and shape.blocks == ("Ring", "Switch")


def test_tables():
    status, out, _ = invoke(
        f"{COMMAND} --budget-cost 50000 --objective time-cost --constraint 'total >= 20' --refine --refine-steps 1 --verbose",
    )
    assert status == 0
    for text in (
        "Ring 4 x Switch 4, 16 NPUs",
        "cost <= 50000.0; total >= 20",
        "gain over equal shares",
        "Splits by bytes",
        "limited by",
    ):
        assert text in out
    assert re.search(r"gain over best by bytes +1\.\d{3} x", out)


def test_a_run_of_astra_sim():
    workload = "configs/workload/transformer_16"
    files = f"--workload {workload}/workload/w --system {workload}/system.json"
    command = f"optimize --network configs/network/hetero_3d_16npus.yml {files}"
    result = answer(f"{command} --comm-group {workload}/comm_group.json")
    assert result["profiles"] == 2
    current, best = result["splits"]["input"], result["splits"]["best"]
    assert current["bandwidth_gbps"] == pytest.approx([200, 200, 200], rel=1e-6)
    assert best["total_gbps"] == pytest.approx(600, rel=1e-6) and best["cost"] is None
    assert result["gain"]["input"] == pytest.approx(current["time_ns"] / best["time_ns"]) and result["gain"]["input"] > 1.05
    status, _, err = invoke(f"{command} --json")  # groups are missing
    assert status == BAD_INPUT and "uses group 1, which does not exist; give a file of groups (--comm-group)" in err


def test_the_tutorial():
    text = (REPOSITORY / "docs/optimize.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    commands = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    assert len(commands) == 6
    (sweep_file,) = re.findall(r"`splits.yml`:\n\n```yaml\n(.*?)```", text, re.DOTALL)
    for name, values in SWEPT.items():
        assert name in sweep_file
        sweep_file = sweep_file.replace(name, values)
    Path("splits.yml").write_text(sweep_file)
    shown = [SPLIT.findall(part.replace("\n    ", "\n")) for part in text.split("```sh")]
    printed = []
    for command in commands:
        fewer = "".join(option for part, option in FEWER.items() if part in command)
        status, out, err = invoke(command.removeprefix("astra-tacos ") + fewer)
        assert status == 0
        assert all(" points done, " in line for line in err.splitlines())  # where it takes longer
        printed.append(out)
    rows = [SPLIT.findall(out) for out in printed]
    assert shown[1] == rows[1]
    assert shown[2][:-1] == rows[2][:-1]
    name, *bandwidths, time = rows[2][-1]
    assert (name, shown[2][-1][0]) == ("refined", "refined")
    assert float(shown[2][-1][-1].replace(",", "")) <= float(time.replace(",", ""))
    assert network_shape(read_network("refined.yml"))[1] == pytest.approx(list(map(float, bandwidths)), abs=0.01)
    shown_points = re.findall(r"^ *\d +([\d.]+) +([\d.]+) +([\d,]+)$", text, re.MULTILINE)
    assert len(shown_points) == 5
    assert any(re.search(rf"\b{time}\b", printed[4]) for *_, time in shown_points), "a point of the table takes what it says"
    assert Path("splits.html").stat().st_size > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    {
        "": "nothing limits B0, expected a limit by --total-bandwidth, --budget-cost or --constraint",
        "--total-bandwidth 10 --constraint 'B0 >= 11'": "no split of at least 0.1 GB/s each satisfies total == 10.0; B0 >= 11",
        "--total-bandwidth 10 --constraint 'B2 <= 1'": "constraint 'B2 <= 1': found the name B2, which has no value here",
        "--total-bandwidth nan": "total bandwidth: found nan, expected a number above 0",
        "--total-bandwidth 10 --min-bandwidth -1": "least bandwidth: found -1, expected a number above 0",
        "--total-bandwidth 10 --latency -1": "latency: found -1, expected",
        "--total-bandwidth 10 --synthesizer magic": "synthesizer: found 'magic', expected symmetric or ",
        "--total-bandwidth 10 --output n.yml": "n.yml is given twice",
        "--total-bandwidth 10 --output .": "is a directory, expected a file",
        "--network n.yml": "Expected one of '--libra-network' and '--network'",
        "--system s.json --total-bandwidth 10": "--system, --comm-group and --remote-memory are for traces",
    }.items(),
)
def test_bad_options(arguments, message):
    status, out, err = invoke(f"{COMMAND} {arguments}")
    assert (status, out) == (BAD_INPUT, "") and message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("optimize --workload w", "Expected one of"),
        ("optimize --workload w --network n.yml", "Missing option '--system'"),
        ("optimize --workload w.txt --libra-network n.yml", "Missing option '--communicator'"),
        ("optimize --workload w --network n.yml --system s.json --communicator c.yml", "--communicator is for LIBRA's"),
        (COMMAND.replace("--cost-model m.yml", "") + " --total-bandwidth 9 --objective time-cost", "found no cost model"),
        (COMMAND.replace("w.txt", "none.txt") + " --total-bandwidth 9", "none.txt: cannot be read"),
    ],
)
def test_missing_options_and_files(command, message):
    status, _, err = invoke(command)
    assert status == BAD_INPUT and message in err and err.count("\n") == 1


def test_help_is_light():
    code = "import atexit, sys\nfrom astra_tacos.cli.main import main\natexit.register(lambda: print(*sys.modules))\n"
    code += "main(['optimize', '--help'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "--refine" in out and not {"numpy", "scipy", "numba", "yaml", "rich"} & set(out.split())


def test_replays_of_the_whole_step():
    """Splits by replays of classes are those by replays of all ranks, and a split takes what `replay` says of its network."""
    write_network(Path("net.yml"), "FullyConnected 4", "Ring 2", "Switch 4")
    sizes = "--dp 4 --tp 4 --pp 2 --order tp,pp,dp --layers 4 --hidden 512 --heads 8 --sequence 128 --vocab 512 --micro-batches 2"
    assert invoke(f"generate --output run {sizes} --network net.yml --compact")[0] == 0
    assert invoke("export run --network net.yml --format run --output all")[0] == 0
    ranks = "--workload all/workload/w --system all/system.json --comm-group all/comm_group.json"
    for backend in ("congestion-unaware", "congestion-aware"):
        found = []
        for files in ("--workload run", ranks):
            command = f"optimize {files} --network net.yml --refine replays --backend {backend} --output best.yml --json"
            status, out, err = invoke(command)
            assert (status, err) == (0, "")
            found.append(json.loads(out)["refine"])
        one, other = found
        assert one == other and one["backend"] == backend and one["num_replays"] > 6
        best = one["splits"]["refined"]
        assert best["time_ns"] == min(split["time_ns"] for split in one["splits"].values() if split["feasible"])
        replayed = answer(f"replay run --network best.yml --backend {backend}")
        assert replayed["end_ns"] == pytest.approx(best["time_ns"], rel=1e-4)  # the file has six digits
    status, out, _ = invoke("optimize --workload run --network net.yml --refine replays")
    assert status == 0 and "replays of the step, congestion-aware" in out
    for more, message in (
        ("--workload run --network net.yml --system all/system.json", "run is a compact run, which has all files"),
        ("--workload run --network net.yml --backend congestion-aware", "--backend is for --refine replays"),
    ):
        status, _, err = invoke(f"optimize {more}")
        assert status == BAD_INPUT and message in err
    status, _, err = invoke(f"{COMMAND} --total-bandwidth 100 --refine replays")
    assert status == BAD_INPUT and "--refine replays needs a run" in err


def test_notes_stand_before_the_details():
    """As of every result: the answer, its table, what qualifies them, and then the tables of details."""
    status, out, _ = invoke(f"{COMMAND} --total-bandwidth 100 --refine --refine-steps 1 --chunks-per-npu 2 --verbose")
    parts = ("proof", "Splits by 6 schedules", "\nconstraints", "Splits by bytes", "Communication at the best split")
    places = [re.search(re.sub("6 ", r"\\d+ ", part), out).start() for part in parts]
    assert status == 0 and places == sorted(places)
