"""What every export format must do, whichever it is."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from helpers.examples import examples
from helpers.lint_runs import bodies
from helpers.networks import ALL, topology
from helpers.schedules import changed, columns, schedule, schedules
from hypothesis import HealthCheck, given, settings

from astra_tacos.collective import COLLECTIVES
from astra_tacos.export import EXPORTERS
from astra_tacos.export.exporter import export_schedule
from astra_tacos.run.trace.reader import read_trace
from astra_tacos.run.trace.schema import schema_module
from astra_tacos.schedule.link_use import link_use
from astra_tacos.schedule.storage import load_schedule
from astra_tacos.support.errors import ConfigError, VerificationError
from astra_tacos.verifier.program import verify_trace

every = pytest.mark.parametrize("name", EXPORTERS)


def content(path):
    """The bytes of a file, or of all files in a directory."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.fixture(scope="module")
def made():
    return schedule(topology("mixed"), size=6000 * 24)


@every
def test_says_what_it_is(name):
    exporter = EXPORTERS[name]
    assert exporter.name == name
    for line in (exporter.summary, *(option.help for option in exporter.options.values())):
        assert line and "\n" not in line and line[-1] not in ".;"
    assert exporter.suffix


@every
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(of=schedules())
def test_writes_the_same_bytes_again_or_says_why_not(name, of, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    exporter = EXPORTERS[name]
    reason = exporter.why_not(of)
    if reason is not None:
        assert reason and "\n" not in reason
        with pytest.raises(ConfigError, match=f"^{name}: found a schedule of {of.collective.name}, but "):
            export_schedule(of, folder / "a", name)
        assert list(folder.iterdir()) == []
        return
    for place in ("a", "b"):
        written = export_schedule(of, folder / place, name)
        assert written.path == folder / place
        assert all(note and "\n" not in note for note in written.notes)
        json.dumps(written.figures)
    assert {path.name for path in folder.iterdir()} == {"a", "b"}
    assert (folder / "a").is_file() == (exporter.writes == "file")
    assert content(folder / "a") == content(folder / "b") != {}


@every
def test_some_schedule_is_taken_of_every_network(name, tmp_path):
    for number, network in enumerate(ALL.values()):
        of = topology(*network)
        export_schedule(schedule(of, size=6000 * of.num_npus), tmp_path / str(number), name)


@every
def test_replaces_its_own_and_nothing_else(name, tmp_path, made):
    out = tmp_path / "out"
    for _ in range(2):
        export_schedule(made, out, name)
    if EXPORTERS[name].writes == "directory":
        (out / "thesis.tex").write_text("precious")
        with pytest.raises(ConfigError, match="choose another output"):
            export_schedule(made, out, name)
        assert (out / "thesis.tex").read_text() == "precious"
        (tmp_path / "file").write_text("precious")
        with pytest.raises(ConfigError, match="choose another output"):
            export_schedule(made, tmp_path / "file", name)
    else:
        (tmp_path / "folder").mkdir()
        with pytest.raises(ConfigError, match="is a directory, expected a file"):
            export_schedule(made, tmp_path / "folder", name)


@every
def test_a_failure_leaves_nothing_behind(name, tmp_path, made):
    exporter = EXPORTERS[name]

    def fail(of, path, **options):
        exporter.write(of, path, **options)
        raise RuntimeError("disk full")

    exporter.export(made, tmp_path / "old")
    before = content(tmp_path / "old")
    for place in ("new", "old"):
        with pytest.raises(RuntimeError, match="disk full"):
            replace(exporter, write=fail).export(made, tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert content(tmp_path / "old") == before


@every
def test_the_oracle_refuses_illegal_schedules(name, tmp_path, made):
    late = columns(made)
    late["start_ns"] -= 1
    outside = columns(made)
    outside["channel"][0] = made.topology.num_channels
    for wrong in (changed(made, **late), changed(made, **outside)):
        with pytest.raises(VerificationError, match="violations, the first: "):
            export_schedule(wrong, tmp_path / "out", name)
    for no_schedule in (None, "run"):
        with pytest.raises(ConfigError, match=f"^{name}: found (NoneType|str), expected a Schedule$"):
            export_schedule(no_schedule, tmp_path / "out", name)
    assert list(tmp_path.iterdir()) == []


@every
def test_options_are_read_from_text_or_refused(name, tmp_path, made):
    exporter = EXPORTERS[name]
    for text in ("no-such-option=1", "no-such-option", "", "=", *(f"{key}=\x00 no such value" for key in exporter.options)):
        with pytest.raises(ConfigError, match=f"of {name}: found .*, expected .") as caught:
            exporter.read_option(text)
        assert "\n" not in str(caught.value) and "\x00" not in str(caught.value)
    with pytest.raises(ConfigError, match=f"^options of {name}: found 'colour', expected "):
        export_schedule(made, tmp_path / "out", name, colour="red")
    given = dict(exporter.read_option(f"{key}={option.example}") for key, option in exporter.options.items())
    assert len(given) == len(exporter.options)
    export_schedule(made, tmp_path / "out", name, **given)


@every
def test_options_of_programs_are_checked_before_anything_is_written(name, tmp_path, made):
    for key in EXPORTERS[name].options:
        parameter = key.replace("-", "_")
        for strange in (object(), float("nan"), "no such word", [1], -3, 1 << 100):
            with pytest.raises(ConfigError) as caught:
                export_schedule(made, tmp_path / "out", name, **{parameter: strange})
            assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_formats_that_do_not_exist():
    with pytest.raises(ConfigError, match=r"^format: found 'pdf', expected run-directory, chakra, msccl-xml, "):
        export_schedule(None, "x", "pdf")
    assert "pdf" not in EXPORTERS and len(list(EXPORTERS)) == len(EXPORTERS)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_protobuf_reads_the_traces_and_the_oracle_finds_their_collective(tmp_path, collective):
    of = schedule(topology("mixed"), collective, 100_003)
    export_schedule(of, tmp_path / "out", "chakra")
    name = collective.replace("-", "_")
    schema = schema_module()
    sent = 0
    for npu in range(of.topology.num_npus):
        metadata, *nodes = bodies((tmp_path / f"out/{name}.{npu}.et").read_bytes())
        schema.GlobalMetadata.FromString(metadata)
        sent += sum(schema.Node.FromString(node).type == schema.COMM_SEND_NODE for node in nodes)
    assert sent == of.num_sends
    verdict = verify_trace(read_trace(tmp_path / "out" / name), collective, of.topology, of.collective.root)
    assert verdict.proven


def test_the_schedule_in_a_file_and_in_a_run_directory_is_the_same(tmp_path, made):
    export_schedule(made, tmp_path / "a.npz", "npz")
    export_schedule(made, tmp_path / "run", "run-directory")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "run/schedule.npz").read_bytes()
    found = load_schedule(tmp_path / "a.npz")
    assert all(np.array_equal(column, getattr(found, name)) for name, column in columns(made).items())


def test_rows_of_sends(tmp_path, made):
    export_schedule(made, tmp_path / "a.csv", "csv")
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == made.num_sends
    for name, column in {"src": made.src, "dst": made.dst, "chunk": made.chunk, "size_bytes": made.size_bytes}.items():
        assert [int(row[name]) for row in rows] == column.tolist()
    assert [int(row["reduces"]) for row in rows] == made.reduces.tolist()
    assert [int(row["usable_ns"]) for row in rows] == made.done_ns.tolist()
    for row in rows:
        last = int(row["down_link"] or row["link"])
        assert made.topology.link_src[int(row["link"])] == int(row["src"]) and made.topology.link_dst[last] == int(row["dst"])
    assert any(row["down_link"] for row in rows) and not all(row["down_link"] for row in rows)


@examples(15)
@given(of=schedules())
def test_a_track_per_link_with_one_send_at_a_time(tmp_path_factory, of):
    path = tmp_path_factory.mktemp("timeline") / "a.json"
    export_schedule(of, path, "chrome-trace")
    events = json.loads(path.read_text())["traceEvents"]
    bars = [event for event in events if event["ph"] == "X"]
    assert {event["args"]["message"] for event in bars} == set(range(of.num_messages))
    assert len(bars) == len(link_use(of).message)
    named = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert named == {event["tid"] for event in bars}
    assert max(event["args"]["usable_ns"] for event in bars) == of.collective_time_ns
    free = dict.fromkeys(named, 0)
    for event in bars:
        begin, duration = round(event["ts"] * 1000), round(event["dur"] * 1000)
        assert begin >= free[event["tid"]] and duration > 0
        free[event["tid"]] = begin + duration
