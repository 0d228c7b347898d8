"""What is printed does nothing to a terminal, whatever names are in it, and never fails for its characters."""

from __future__ import annotations

import os
import shlex
import subprocess
import unicodedata
from pathlib import Path

import pytest
from helpers.command import PROGRAM, read_json
from helpers.examples import some_of
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.cli.main import _fail
from astra_tacos.cli.shared.console import echo, print_result, printable
from astra_tacos.support.rows import Answer, Row, Table

EVIL = "a\x1b]0;owned\x07\x1b[2J\r\u202eb\u200bc\u2028d\x9b1m\udcff"
"""A title of the window, a cleared screen, a line written over, mirrored text, no width, another line, a byte that is no text."""
NETWORK = "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ] # \u00e4\u00f6\u00fc\n"


def run(command, cwd, **environment):
    arguments = [*PROGRAM, *shlex.split(command)]
    return subprocess.run(arguments, cwd=cwd, capture_output=True, check=False, env=os.environ | environment)


def harmless(text):
    return all(unicodedata.category(char)[0] not in "CZ" or char in " \n" for char in text)


@given(st.text(st.characters()))
def test_no_character_but_those_that_are_seen_gets_through(text):
    shown = printable(text)
    assert harmless(shown) and "\n" not in shown
    shown.encode()
    if text.isprintable():
        assert shown == text


def test_tables_rows_and_lines(capsys):
    print_result(Answer("", [Row(EVIL, EVIL)], [Table(EVIL, (EVIL, "b"), [(EVIL, "[bold]1[/bold]")])]))
    echo(f"{EVIL}\n{EVIL}")
    echo(EVIL, is_error=True)
    printed = capsys.readouterr()
    assert harmless(printed.out) and harmless(printed.err)
    assert printed.out.count(printable(EVIL)) == 7
    assert "[bold]1[/bold]" in printed.out  # names are no markup


@pytest.mark.parametrize(
    "command",
    [
        "inspect NAME.yml",
        "synthesize --network NAME.yml --size 1MB --synthesizer ring --output NAME",
        "lint --network NAME.yml --workload NAME --system NAME",
    ],
)
def test_names_of_files_do_nothing(tmp_path, command):
    name = "a\x1b]0;owned\x07\x1b[2J\r\u202eb"
    (tmp_path / f"{name}.yml").write_text(NETWORK, encoding="utf-8")
    done = run(command.replace("NAME", shlex.quote(name)), cwd=tmp_path)
    assert harmless(done.stdout.decode()) and harmless(done.stderr.decode())
    assert b"\\x1b]0;owned\\x07" in done.stdout + done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "locale",
    some_of(
        [
            {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
            {"LC_ALL": "POSIX"},
            {"PYTHONIOENCODING": "ascii"},
            {"LANG": "de_DE.ISO-8859-1"},
        ],
        2,
    ),
)
def test_other_locales_read_and_print_the_same(tmp_path, locale):
    name = "n\u00e4tz\u202e.yml"
    (tmp_path / name).write_text(NETWORK, encoding="utf-8")
    done = run(f"inspect {name}", cwd=tmp_path, PYTHONUTF8="0", **locale)
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert b"Ring 4" in done.stdout
    done = run("inspect missing-ä€.yml", cwd=tmp_path, PYTHONUTF8="0", **locale)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and b"no such file" in done.stderr


def test_files_are_written_in_utf_8_whatever_the_locale(tmp_path):
    (tmp_path / "n\u00e4tz.yml").write_text(NETWORK, encoding="utf-8")
    command = "synthesize --network n\u00e4tz.yml --size 1MB --synthesizer ring --output"
    for output, environment in (("here", {}), ("there", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})):
        done = run(f"{command} {output}", cwd=tmp_path, **environment)
        assert done.returncode == 0, done.stderr.decode()
    for path in (tmp_path / "here").rglob("*"):
        if path.suffix in (".yml", ".json", ".sh"):
            path.read_text(encoding="utf-8")
    read_json(tmp_path / "there/system.json")


@pytest.mark.skipif(os.name != "posix", reason="closes streams by a shell")
@pytest.mark.parametrize("closed", (">&-", "2>&-", ">&- 2>&-"))
def test_a_closed_stream_ends_no_command(tmp_path, closed):
    (tmp_path / "net.yml").write_text(NETWORK, "utf-8")
    command = f"{shlex.join(PROGRAM)} inspect net.yml {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


def test_an_error_that_nobody_can_read_has_its_exit_code(tmp_path):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full")
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([*PROGRAM, "inspect", "nofile"], cwd=tmp_path, stderr=full, check=False).returncode == 2


def test_long_errors_are_shortened_in_the_middle(capsys):
    for message, expected in (
        ("n.yml: " + "ab " * 999 + "expected less", 580),
        ("trials: found " + "9" * 300 + ", expected less", 90),
    ):
        with pytest.raises(SystemExit):
            _fail(message, 2)
        text = capsys.readouterr().err.removeprefix("astra-tacos: error: ").rstrip()
        assert len(text) <= expected and text[:6] == message[:6] and text.endswith("expected less"), text


@pytest.mark.parametrize("letter", ["\x1b", "\u202e", "\U000e0001", "\udcff"])
def test_errors_are_as_short_after_escaping(capsys, letter):
    with pytest.raises(SystemExit):
        _fail(f"{letter * 500}, expected less", 2)
    line = capsys.readouterr().err
    assert len(line) <= 600 and line.endswith("expected less\n") and line[:-1].isprintable()
