"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.command import invoke

from astra_tacos.support import temporaries
from astra_tacos.support.errors import ConfigError, OutputError, ReplayError
from astra_tacos.support.files import (
    check_apart,
    check_outside,
    check_replaceable,
    check_writable,
    exchange,
    replaced_directory,
    replaced_file,
    together,
)
from astra_tacos.support.input_file import forget_inputs, inputs_noted, note_input

KILLED = """
import os, shutil, signal, sys
from pathlib import Path
from astra_tacos.support import files

path, step, can_exchange = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"

def until_killed(function):
    def counted(*arguments, **options):
        global step
        if step == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        step -= 1
        return function(*arguments, **options)
    return counted

if not can_exchange:
    files.exchange = lambda one, other: False
with files.replaced_directory(path) as directory:
    for name in ("a", "b"):
        (directory / name).write_text("new")
    Path.rename, shutil.rmtree = until_killed(Path.rename), until_killed(shutil.rmtree)
    files.exchange = until_killed(files.exchange)
"""
"""Writes a directory, and is killed before the step of that number in which names change."""


def test_two_that_write_one_file_at_a_time_do_not_share_a_temporary(tmp_path):
    """As processes of one id do, in containers that share a folder."""
    path = tmp_path / "row.json"
    with replaced_file(path) as first:
        first.write_text("first, not yet complete")
        with replaced_file(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
        first.write_text("first")
    assert path.read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["row.json"]


def test_a_temporary_may_need_the_suffix_that_libraries_append(tmp_path):
    path = tmp_path / "rows"
    for number in (1, 2):
        with replaced_file(path, ".npy") as temporary:
            np.save(temporary, np.array([number]))
        assert np.load(path).tolist() == [number]
    with pytest.raises(ConfigError, match=f"^{path}: is odd$"), replaced_file(path, ".npy") as temporary:
        np.save(temporary, np.array([3]))
        raise ConfigError(f"{temporary}: is odd")
    with pytest.raises(ConfigError, match=f"^{path}: cannot be written "), replaced_file(path, ".npy"):
        pass  # nothing was written
    assert np.load(path).tolist() == [2]
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows"]


def whole(path):
    """What the files of a directory say: all the same."""
    found = {(path / name).read_text() for name in ("a", "b")}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_process_that_is_killed_at_any_step_loses_no_output(tmp_path, can_exchange):
    path = tmp_path / "out"
    if can_exchange and not supports_exchange(tmp_path):
        pytest.skip("NOT TESTED: this file system cannot exchange two names in one step")
    found = []
    for step in range(10):
        with replaced_directory(path) as directory:
            for name in ("a", "b"):
                (directory / name).write_text("old")
        done = subprocess.run([sys.executable, "-c", KILLED, str(path), str(step), str(can_exchange)], check=False)
        if can_exchange:
            assert whole(path) in ("old", "new")  # at any moment
        check_replaceable(path, "test", lambda names: names == {"a", "b"})
        found.append(whole(path))
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        with pytest.raises(ReplayError), replaced_directory(path):  # the next run cleans up, whatever becomes of it
            raise ReplayError("")
        assert whole(path) == found[-1]
        assert os.listdir(tmp_path) == ["out"]  # noqa: PTH208
    assert done.returncode == 0
    assert found == sorted(found, reverse=True)
    assert found[0] == "old" and found[-1] == "new"
    assert len(found) == (3 if can_exchange else 5)  # a kill before each step, and none


def supports_exchange(folder):
    places = [folder / "one", folder / "other"]
    for place in places:
        place.mkdir()
    try:
        return exchange(*places)
    finally:
        for place in places:
            place.rmdir()


def test_names_are_exchanged_in_one_step(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not exchange(tmp_path / "one", tmp_path / "other"):
        pytest.skip("NOT TESTED: this file system cannot exchange two names in one step")
    assert (tmp_path / "one/other").exists() and (tmp_path / "other/one").exists()
    with pytest.raises(FileNotFoundError, match="nothing"):
        exchange(tmp_path / "one", tmp_path / "nothing")


@pytest.mark.parametrize("replaced", [replaced_file, replaced_directory])
def test_temporaries_of_killed_processes_go_and_those_of_live_ones_stay(tmp_path, replaced):
    code = f"import sys; from pathlib import Path; from astra_tacos.support.files import {replaced.__name__} as r\n"
    code += "with r(Path(sys.argv[1])): print(flush=True); input()"
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (live,) = tmp_path.iterdir()
        with replaced(tmp_path / "other"):
            assert live.exists()
        with pytest.raises(ReplayError), replaced(tmp_path / "out"):
            raise ReplayError("")
        assert live.exists()
        process.kill()
    assert live.exists()
    with pytest.raises(ReplayError), replaced(tmp_path / "out"):
        raise ReplayError("")
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]


def test_scratch_directories_of_killed_processes_go(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "import os; from astra_tacos.support.temporaries import scratch_directory as made\n"
    code += "with made() as place: (place / 'x').touch(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, check=False)
    (stale,) = tmp_path.iterdir()
    with temporaries.scratch_directory() as mine:
        assert list(tmp_path.iterdir()) == [mine] != [stale]
        assert mine.stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


def fill_disk():
    """From here on no file of this process may be longer than 20,000 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))


def write_much(path):
    path.write_bytes(bytes(30_000))


def test_a_full_disk_is_told_with_the_path(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    fill_disk()
    try:
        with (
            pytest.raises(ConfigError, match=r"out\.csv: cannot be written \(File too large\)"),
            replaced_file(tmp_path / "out.csv") as file,
        ):
            write_much(file)
        with (
            pytest.raises(ConfigError, match=r"/out: cannot be written \(File too large\)"),
            replaced_directory(tmp_path / "out") as place,
        ):
            write_much(place / "deep")
        with (
            pytest.raises(ConfigError, match=r"/out/deep: cannot be written \(File too large\)"),
            replaced_directory(tmp_path / "out") as place,
            replaced_file(place / "deep") as file,
        ):
            write_much(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    assert not list(tmp_path.iterdir())
    full = Path("/dev/full")
    if full.exists():
        with pytest.raises(ConfigError, match=r"/dev/full: cannot be written \(No space left"), replaced_file(full) as file:
            write_much(file)


def test_an_error_about_another_file_names_that_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"input\.yml"), replaced_directory(tmp_path / "out"):
        (tmp_path / "input.yml").read_text()
    with pytest.raises(ReplayError, match=r"^.*/out/w\.0\.et: no such file$"), replaced_directory(tmp_path / "out") as place:
        raise ReplayError(f"{place / 'w.0.et'}: no such file")
    assert not list(tmp_path.iterdir())


def test_the_root_directory_is_not_replaced():
    with pytest.raises(ConfigError, match=r"^/: is the root directory, which cannot be replaced: "):
        check_replaceable(Path("/"), "run", lambda names: True)


def test_a_directory_with_an_unknown_file_in_a_folder_is_not_replaced(tmp_path, caplog):
    path = tmp_path / "run"
    for name in ("workload/w.0.et", "stand_in/log/log.log", "log/log.log", "tables/links.csv"):
        (path / name).parent.mkdir(parents=True)
        (path / name).touch()
    known = {"workload", "stand_in", "log"}
    check_replaceable(path, "run", known.issuperset, ("tables/links.csv",))
    with replaced_directory(path):
        pass
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: ASTRA-sim's log of the earlier run (log/log.log, stand_in/log/log.log) went with it"
    ]
    for name in ("workload/notes.txt", "log/paper.pdf", "workload/w.et"):
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).touch()
        with pytest.raises(ConfigError, match=f"^{path}: {name} is inside, which no run has and which would be deleted: "):
            check_replaceable(path, "run", known.issuperset)
        (path / name).unlink()


def test_no_output_takes_the_place_of_what_the_command_has_read(tmp_path):
    file = tmp_path / "run/links.csv"
    file.parent.mkdir()
    file.write_text("input")
    (tmp_path / "link").symlink_to(file)
    message = "the output would replace an input of this command"
    with inputs_noted():
        note_input(file)
        for path in (file, tmp_path / "link"):
            with pytest.raises(ConfigError, match=f"^{path}: {message}: "):
                check_writable(path)
            with pytest.raises(ConfigError, match=f"^{path}: {message}: "), replaced_file(path):
                pass
        with pytest.raises(ConfigError, match=rf"{message} \(links.csv inside\)"), replaced_directory(file.parent):
            pass
        forget_inputs(file)
        with pytest.raises(ConfigError, match=message), replaced_file(file) as temporary:
            temporary.write_text("output")
            note_input(file)
    assert file.read_text() == "input"
    with replaced_file(file) as temporary:
        temporary.write_text("output")
    assert file.read_text() == "output"


def test_outputs_written_together_appear_together_or_not_at_all(tmp_path):
    old, new, folder = tmp_path / "old.csv", tmp_path / "made/new.csv", tmp_path / "folder"

    old.write_text("old")
    with pytest.raises(ConfigError, match="no space left"), together():
        for path in (old, new):
            with replaced_file(path) as temporary:
                temporary.write_text("new")
        with replaced_directory(folder) as directory, replaced_file(directory / "inner") as temporary:
            temporary.write_text("new")
        assert old.read_text() == "old" and not new.exists() and not folder.exists()
        raise ConfigError("no space left")
    assert [path.name for path in tmp_path.iterdir()] == ["old.csv"] and old.read_text() == "old"
    with pytest.raises(ConfigError, match=f"^{folder}: cannot be written "), together():
        for path in (old, folder):
            with replaced_file(path) as temporary:
                temporary.write_text("new")
        folder.mkdir()
        (folder / "in the way").touch()
    assert old.read_text() == "old"
    shutil.rmtree(folder)
    with together():
        for path in (old, new):
            with replaced_file(path) as temporary:
                temporary.write_text("new")
        with replaced_directory(folder) as directory:
            (directory / "inner").write_text("new")
    assert old.read_text() == new.read_text() == (folder / "inner").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "made", "old.csv"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("loop", "leads through links that go in a circle"),
        ("loop/inside", "leads through links that go in a circle"),
        ("nothing", "is a link to missing, which does not exist"),
        ("nothing/inside", "is a link to missing, which does not exist"),
        ("n" * 250, "has a name of 250 bytes, expected at most"),
        ("\u00e9" * 120, "has a name of 240 bytes, expected at most"),
        ("n" * 256 + "/inside", "has a name of 256 bytes, expected at most 255"),
        ("/".join(["n" * 200] * 21), "is too long a path, expected at most 4,095 bytes"),
    ],
)
def test_an_output_without_a_place_is_refused_before_any_work(tmp_path, name, said):
    """By all checks and writers, and by commands before they look at their inputs, which are not there; nothing is made."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nothing").symlink_to("missing")
    path = tmp_path / name
    checks = (
        lambda: check_writable(path),
        lambda: check_replaceable(path, "run", lambda names: True),
        lambda: check_apart([path], []),
        lambda: check_outside(path, []),
        lambda: replaced_file(path).__enter__(),
        lambda: replaced_directory(path).__enter__(),
    )
    for check in checks:
        with pytest.raises(OutputError, match=re.escape(said)):
            check()
    for command in ("synthesize --network none.yml --size 1 --collective all-reduce", "plan none", "optimize", "sweep none.yml"):
        code, _, errors = invoke(f"{command} --output {name}", tmp_path)
        assert (code, errors.count("\n")) == (2, 1) and errors.startswith("astra-tacos: error: ")
        assert "none" not in errors and "choose another output" in errors
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["loop", "nothing"]


def test_the_longest_name_that_is_taken_can_be_written(tmp_path):
    longest = next(size for size in range(255, 0, -1) if not _is_refused(tmp_path / ("n" * size)))
    with replaced_file(tmp_path / ("n" * longest)) as temporary:
        temporary.write_text("x")
    assert longest > 200 and [entry.name for entry in tmp_path.iterdir()] == ["n" * longest]


def _is_refused(path):
    try:
        check_writable(path)
    except OutputError:
        return True
    return False
