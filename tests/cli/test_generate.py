"""`astra-tacos generate`: what it writes others take, the shipped workload is its own, and bad input gets one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.command import answer, invoke, read_json
from helpers.generated import write_network

from astra_tacos.cli.main import BAD_INPUT

SHIPPED = Path(__file__).parents[2] / "configs/workload"
SMALL = "--layers 4 --hidden 64 --heads 8 --sequence 64 --vocab 512"


@pytest.fixture(autouse=True)
def started_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_its_run_is_linted_and_replayed_at_once():
    write_network(Path("n.yml"), "Ring 4", "Switch 4")
    arguments = f"generate --output run --network n.yml --dp 4 --tp 2 --pp 2 --ep 2 --experts 4 --top-k 2 {SMALL}"
    status, out, err = invoke(arguments)
    assert (status, err) == (0, "")
    assert out.endswith("astra-tacos plan run --output planned\n") and "all-to-all expert" in out
    assert len(answer("replay run")["finish_ns"]) == 16
    status, out, _ = invoke("lint run")
    assert status == 0 and out.startswith("nothing found")


def test_answers_carry_the_error_of_the_network():
    write_network(Path("n.yml"), "Ring 4")
    Path("n.yml").write_text("astra_tacos: { error: 0.063 }\n" + Path("n.yml").read_text())
    assert invoke(f"generate --output run --network n.yml --dp 4 {SMALL}")[0] == 0
    size = "--network n.yml --collective all-reduce"
    for arguments in ("replay run", "plan run --output plan", f"synthesize {size} --size 1MiB"):
        status, out, err = invoke(arguments)
        assert (status, err) == (0, "")
        assert "plus or minus 6.3%" in next(line for line in out.splitlines()[1:] if line), arguments
        if not arguments.startswith("plan"):
            assert answer(arguments)["network_error"] == 0.063
    arguments = f"compare {size} --sizes 1MiB"
    assert "plus or minus 6.3%" in invoke(arguments)[1]
    assert answer(arguments)["network_error"] == 0.063


def test_a_published_model_and_what_changes_it():
    arguments = "generate --output run --model mixtral-8x7b --dp 2 --ep 2 --sequence 128 --layers 2"
    made = answer(arguments)
    model = made["step"]["model"]
    assert made["num_ranks"] == 2
    assert (model["kv_heads"], model["ffn"], model["sequence"], model["layers"]) == (8, 14336, 128, 2)
    model = answer(arguments + " --heads 64 --ffn 2x --no-gated")["step"]["model"]
    assert (model["kv_heads"], model["ffn"], model["is_gated"]) == (64, 8192, False)


@pytest.mark.parametrize("name", [path.name for path in sorted(SHIPPED.iterdir()) if path.is_dir()])
def test_the_shipped_workloads_are_generated_as_their_readme_says(name):
    readme = (SHIPPED / "README.md").read_text().replace("\\\n", " ")
    command = re.search(rf"astra-tacos (generate --output configs/workload/{name} .*)", readme)
    assert command
    status, _, err = invoke(command[1])
    assert (status, err) == (0, "")
    generated = Path("configs/workload") / name
    files = sorted(path.relative_to(generated) for path in generated.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(SHIPPED / name) for path in (SHIPPED / name).rglob("*") if path.is_file())
    for file in files:
        assert (generated / file).read_bytes() == (SHIPPED / name / file).read_bytes(), file
    assert sum((generated / file).stat().st_size for file in files) < 1 << 20


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (f"{SMALL} --dp 2 --pp 3", "layers: found 4, expected a multiple of pp, which is 3"),
        (f"{SMALL} --tp 16", "heads: found 8, expected a multiple of tp, which is 16"),
        (f"{SMALL} --tp 8 --kv-heads 2", "kv-heads: found 2, expected a multiple of tp, which is 8"),
        (f"{SMALL} --tp 4 --ffn 30", "ffn: found 30, expected a multiple of tp, which is 4"),
        (f"{SMALL} --dp 4 --ep 4 --experts 6", "experts: found 6, expected a multiple of ep, which is 4"),
        (f"{SMALL} --dp 4 --ep 3 --experts 6", "ep: found 3, expected a divisor of dp, which is 4"),
        (f"{SMALL} --dp 4 --ep 2", "ep: found 2, but the model has no experts (--experts)"),
        (
            f"{SMALL} --dp 1048577",
            "found 1,048,577 ranks, of which more than 1,024 make a compact run, expected a network of dimensions (--network)",
        ),
        (SMALL, "dp x tp x pp: found 1 rank, expected 2 or more"),
        (f"{SMALL} --dp 2 --order tp,dp", "order: found tp,ep,dp, expected each of tp,ep,dp,pp once (ep may be left out)"),
        (f"{SMALL} --dp 2 --ffn 4.5x", "ffn: found '4.5x', expected a width such as 4096, or a multiple of hidden such as 4x"),
        (
            f"{SMALL} --dp 2 --ffn {'9' * 5000}",
            f"ffn: found '{'9' * 56}..., expected a width such as 4096, or a multiple of hidden such as 4x",
        ),
        (
            f"{SMALL} --dp 2 --ffn {'9' * 18}x",
            "mb0_mlp_forward_layer0: 1.05e+24 operations or 3.28e+22 bytes are too many",
        ),
        (
            f"{SMALL} --dp 2 --micro-batches {10**12} --batch {10**12}",
            "found 24,000,000,000,000 nodes of a rank or more, expected at most 1,000,000: choose fewer layers, "
            "micro-batches or ranks",
        ),
        (f"{SMALL} --tp 4 --sequence 30 --sequence-parallel", "sequence: found 30, expected a multiple of tp, which is 4"),
        (f"{SMALL} --dp 2 --peak-tflops nan", "peak tflops: found nan, expected more than 0 TFLOP/s"),
        (f"{SMALL} --dp 8 --network n.yml", "n.yml: found 4 NPUs, expected dp x tp x pp = 8"),
        ("--dp 2 --layers 4", "Missing option '--hidden' (or '--model')."),
        (f"{SMALL} --dp 2 --bucket-mb nan", "bucket mb: found nan, expected more than 0 MiB"),
        (f"{SMALL} --dp 2 --bucket-mb 25 --first-bucket-mb inf", "first bucket mb: found inf, expected more than 0 MiB"),
    ],
)
def test_bad_input_gets_one_line(more, message):
    write_network(Path("n.yml"), "Ring 4")
    assert invoke(f"generate --output run {more}") == (BAD_INPUT, "", f"astra-tacos: error: {message}\n")
    assert [path.name for path in Path().iterdir()] == ["n.yml"]


def test_a_large_run_is_compact_and_replayed():
    write_network(Path("n.yml"), "FullyConnected 8", "Ring 4", "Switch 64")
    sizes = "--layers 4 --hidden 128 --heads 8 --sequence 512 --vocab 512 --batch 2 --micro-batches 2"
    command = f"generate --output run --dp 64 --tp 8 --pp 4 --order tp,pp,dp {sizes} --network n.yml"
    status, out, err = invoke(command)
    assert (status, err) == (0, "") and out.endswith("astra-tacos plan run --output planned\n")
    result = answer("replay run --network n.yml")
    assert (status, result["num_ranks"], result["ranks"]) == (0, 2048, [0, 8, 16, 24])
    assert result["end_ns"] == max(result["finish_ns"])
    status, out, _ = invoke("replay run --network n.yml --output replayed --csv ranks.csv")
    assert status == 0 and "2,048 ranks of 4 classes" in out and "512 do the same at the same times" in " ".join(out.split())
    assert [line.split(",")[0] for line in Path("ranks.csv").read_text().splitlines()] == ["rank", "0", "8", "16", "24"]
    assert invoke("report replayed -o page.html")[0] == 0 and "2,048 ranks of 4 classes" in Path("page.html").read_text()
    Path("run/network.yml").unlink()
    status, _, err = invoke("replay run")
    assert status != 0 and "expected network.yml with it: `astra-tacos replay run --network N.yml`" in err
    status, out, _ = invoke("plan run --network n.yml --output planned")
    assert status == 0 and "2,048 ranks of 4 classes" in out and "best native" in out and "where the time goes" in out
    assert invoke("report planned -o plan.html")[0] == 0 and "512 ranks" in Path("plan.html").read_text()
    assert invoke("report planned -o plan.svg")[0] == 0
    status, out, _ = invoke("replay planned")
    assert status == 0 and "2,048 ranks of 4 classes" in out
    status, _, err = invoke("plan run --network n.yml --output run")
    assert status == BAD_INPUT and err.startswith("astra-tacos: error: run: ")


def test_a_compact_run_is_linted_as_the_ordinary_one_that_it_stands_for(monkeypatch):
    """The same findings, at the files that there are, and no scratch copy of the run."""
    write_network(Path("n.yml"), "FullyConnected 4", "Ring 2")
    assert invoke(f"generate --output run --dp 2 --tp 4 {SMALL} --network n.yml --compact")[0] == 0
    assert invoke("plan run --network n.yml --output planned")[0] == 0
    assert invoke("export planned --network n.yml --format run --output whole")[0] == 0
    for run in (Path("planned"), Path("whole")):
        system = read_json(run / "system.json")
        (run / "system.json").write_text(json.dumps(system | {"track-local-mem": 1, "unheard-of": 1}))
        for trace in (*run.glob("[cw]*/w.*.et"), *run.glob("collective/*.et")):
            trace.write_bytes(trace.read_bytes().replace(b"comm_tag", b"comm_gat").replace(b"comm_type", b"comm_epyt"))
    whole = answer("lint whole --network n.yml", status=1)
    monkeypatch.setattr("tempfile.mkdtemp", None)  # there is no folder to copy a run to
    compact = answer("lint planned --network n.yml", status=1)
    assert {"A01", "S10", "S16"} <= {each["code"] for each in compact}
    assert [each | {"file": ""} for each in compact] == [each | {"file": ""} for each in whole]
    classes = {each["file"] for each in compact if "/w." in each["file"]}
    assert classes and all(Path(name).is_file() for name in classes)


def test_a_compact_run_is_written_rank_by_rank():
    write_network(Path("n.yml"), "FullyConnected 4", "Ring 2", "Switch 4")
    command = f"generate --output run --dp 4 --tp 4 --pp 2 --order tp,pp,dp {SMALL} --micro-batches 2 --network n.yml --compact"
    assert invoke(command)[0] == 0
    assert invoke("plan run --network n.yml --output planned")[0] == 0
    for name, slow in (("run", ""), ("planned", ""), ("planned", "--slow 5:1.5 --slow 9:3 --delay 7:10us")):
        output = f"all_{name}{len(slow)}"
        status, out, err = invoke(f"export {name} --network n.yml --format run --output {output}")
        assert (status, err) == (0, "") and f"{output}/run_astra_sim.sh" in out
        inputs = f"--workload {output}/workload/w --system {output}/system.json --network {output}/network.yml"
        inputs += f" --comm-group {output}/comm_group.json --directory {output}"
        assert [each["code"] for each in answer(f"lint {inputs}") if each["severity"] == "error"] == []
        whole = answer(f"replay {inputs} {slow}")
        compact = answer(f"replay {name} --network n.yml {slow}")
        assert compact["end_ns"] == whole["end_ns"]
        assert compact["finish_ns"] == [whole["finish_ns"][rank] for rank in compact.get("ranks", range(32))]
        assert ("ranks" in compact) == (not slow) and len(compact["beyond_astra_sim"]) >= slow.count("--")
    status, out, err = invoke("lint --workload run --network n.yml")
    assert (status, err) == (0, "") and "nothing found in 32 ranks" in out
    system = read_json(Path("run/system.json"))
    Path("run/system.json").write_text(json.dumps(system | {"active-chunks-per-dimension": 0}))
    found = answer("lint --workload run --network n.yml", status=1)
    assert found and {each["file"] for each in found if each["severity"] == "error"} == {"run/system.json"}
    assert answer("lint run", status=1) == found
    Path("run/system.json").write_text(json.dumps(system))
    Path("f.yml").write_text(Path("n.yml").read_text() + "astra_tacos: { failed_links: [[0, 1]] }\n")
    for command, message in {
        "lint --fix --workload run --network n.yml --output fixed": "is a compact run, expected the ordinary one",
        "replay run --network n.yml --csv same --output same": " same: given twice, expected another directory (--output)\n",
        "replay run --network n.yml --slow 0:2 --slow 0:3": "expected one factor for each",
        "replay run --network n.yml --backend astra-sim": "`export run --format run` writes it",
        "export run --network n.yml --format run --output other -O a=b": "the format run has no options",
        "plan run --network f.yml --output failed": "f.yml: the network does not look the same",
        "export run --network n.yml --format run --output all_run0": "astra-tacos: error: all_run0: ",
        "replay run --network n.yml --delay 0:2us --delay 0:3us": "expected one time for each",
        "replay run --network n.yml --delay 5:10": "found '10', expected a time such as 200ns, 10us, 1.5ms or 2s",
        "replay run --network n.yml --delay 32:2us": "astra-tacos: error: --delay: found rank 32, expected one below 32\n",
        "replay run --network n.yml --slow 32:2": "astra-tacos: error: --slow: found rank 32, expected one below 32\n",
    }.items():
        status, _, err = invoke(command)
        assert status == BAD_INPUT and message in err
    assert invoke("replay run --network n.yml --chrome-trace t.json")[0] == 0 and Path("t.json").is_file()
