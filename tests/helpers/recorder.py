"""What the commands answer on fixed cases, recorded: a change of anything that users see needs a line that says why.

    python tests/helpers/recorder.py check [--tier all] [--only NAME*]  compares with tests/recorded/answers.jsonl.xz
    python tests/helpers/recorder.py record           records all cases anew, and forgets the changes that were explained

A case is some lines of `astra-tacos`, run one after the other in a folder of their own (tests/recorded/cases.py). Its record has,
of each line, the exit code and what was printed (of `--json`, field by field), and a digest of every file that was written.
Versions, paths and measured times are masked. A difference is allowed if a line of tests/recorded/changes.csv has its case and
field (with * as in file names), and says why.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import io
import json
import lzma
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

from helpers.command import run
from helpers.isolation import isolated
from recorded.cases import CASES, Case

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "tests" / "recorded"
ANSWERS = RECORDED / "answers.jsonl.xz"
CHANGES = RECORDED / "changes.csv"
_TIMES = re.compile(r"(?<![\w.])(?:(?:\d+ h )?\d+ min(?: \d+ s)?|\d+(?:\.\d+)? (?:CPU )?s)(?![\w.])")
"""How long a command took. Times of networks are in ns, us and ms."""
_MEASURED = ("seconds", "elapsed", "cpu_s", "wall_s")
_MOST_SHOWN = 60
_MOST_FILES = 40
"""Of a case; of more, those of a folder have one digest."""


def masked(text: str, folder: Path) -> str:
    """The text without what differs between machines, checkouts and versions."""
    for place, name in ((str(folder), "<case>"), (str(ROOT), "<root>"), (sys.executable, "<python>")):
        text = text.replace(place, name)
    return _TIMES.sub("<time>", text.replace(version("astra-tacos"), "<version>"))


def _fields(value: Any, folder: Path, at: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a JSON document, by path; a long list of numbers is one leaf."""
    if isinstance(value, dict):
        for key, part in value.items():
            if not any(word in key for word in _MEASURED):
                yield from _fields(part, folder, f"{at}.{masked(key, folder)}")
    elif isinstance(value, list) and any(isinstance(part, dict | list) for part in value):
        for place, part in enumerate(value):
            yield from _fields(part, folder, f"{at}[{place}]")
    elif isinstance(value, list):
        yield at, value if len(value) < 9 else hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]
    else:
        yield at, masked(value, folder) if isinstance(value, str) else value


def _printed(text: str, folder: Path) -> dict[str, Any]:
    try:
        found = dict(_fields(json.loads(text), folder, "json"))
    except ValueError:
        return {"text": masked(text, folder)} if text else {}
    if len(found) < 400:
        return found
    parts: dict[str, list[object]] = {}
    for field, value in found.items():
        parts.setdefault(re.sub(r"\[\d+\]", "[]", field), []).append(value)
    return {field: hashlib.sha256(json.dumps(values).encode()).hexdigest()[:12] for field, values in parts.items()}


def _unmeasured(suffix: str, text: str, folder: Path) -> str:
    """A text without the times that a command took: of JSON its fields, of a table its other columns."""
    if suffix == ".json":
        with contextlib.suppress(ValueError):
            return json.dumps(list(_fields(json.loads(text), folder)))
    if suffix == ".csv":
        rows = list(csv.reader(io.StringIO(text)))
        kept = [at for at, name in enumerate(rows[0] if rows else ()) if not any(word in name for word in _MEASURED)]
        return "\n".join(",".join(row[at] for at in kept if at < len(row)) for row in rows)
    return text


def _digest(path: Path, folder: Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
        kept = [name for name in table.column_names if not any(word in name for word in _MEASURED)]
        content = json.dumps(table.select(kept).to_pylist(), default=str).encode()
    with contextlib.suppress(UnicodeDecodeError):
        content = _unmeasured(path.suffix, masked(content.decode(), folder), folder).encode()
    return hashlib.sha256(content).hexdigest()[:12]


def answered(case: Case) -> dict[str, Any]:
    """What the lines of a case print and write, by field."""
    record: dict[str, Any] = {"case": case.name}
    with tempfile.TemporaryDirectory(prefix="record.") as name:
        folder = Path(name).resolve()
        case.prepare(folder)
        before = {path for path in folder.rglob("*") if path.is_file()}
        for place, line in enumerate(case.lines):
            left = run(line.replace("CONFIGS", str(ROOT / "configs")), cwd=folder)
            record[f"{place}.exit"] = left.returncode
            record |= {f"{place}.{field}": value for field, value in _printed(left.stdout, folder).items()}
            if left.stderr:
                record[f"{place}.errors"] = masked(left.stderr, folder)
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path not in before:
                record[f"file.{path.relative_to(folder)}"] = _digest(path, folder)
    files = [field for field in record if field.startswith("file.")]
    if len(files) > _MOST_FILES:
        folders: dict[str, list[str]] = {}
        for field in files:
            folders.setdefault(f"{field.rpartition('/')[0]}/*{Path(field).suffix}", []).append(f"{field} {record.pop(field)}")
        record |= {field: hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12] for field, lines in folders.items()}
    return record


def _read() -> dict[str, dict[str, Any]]:
    with lzma.open(ANSWERS, "rt", encoding="utf-8") as file:
        return {record["case"]: record for record in map(json.loads, file)}


def _allowed() -> list[tuple[str, str]]:
    rows = list(csv.DictReader(io.StringIO(CHANGES.read_text(encoding="utf-8"))))
    for row in rows:
        if not (row["case"] and row["field"] and row["why"]):
            sys.exit(f"{CHANGES}: {row}: a case, a field and a reason are expected")
    return [(row["case"], row["field"].replace("[", "[[]")) for row in rows]  # only * is special in a field


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, object, object]]:
    """Fields that differ, what was recorded, and what is now."""
    for field in {**old, **new}:
        if old.get(field) != new.get(field):
            yield field, old.get(field), new.get(field)


def _run(cases: list[Case]) -> Iterator[dict[str, Any]]:
    for case in cases:
        started = time.process_time()
        try:
            record = answered(case)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            record = {"case": case.name, "crash": f"{type(error).__name__}: {error}"}
        took = time.process_time() - started
        if took > 10:
            print(f"  {case.name}: {took:.0f} CPU s", flush=True)
        yield record


def _check(cases: list[Case]) -> int:
    recorded, allowed, unexplained, explained = _read(), _allowed(), 0, 0
    for record in _run(cases):
        name = record["case"]
        if name not in recorded:
            print(f"{name}: not recorded")
            unexplained += 1
            continue
        for field, old, new in differences(recorded[name], record):
            if any(fnmatchcase(name, case) and fnmatchcase(field, pattern) for case, pattern in allowed):
                explained += 1
            else:
                unexplained += 1
                if unexplained <= _MOST_SHOWN:
                    print(f"{name}: {field}: {str(old)[:160]!r} is now {str(new)[:160]!r}", flush=True)
    for name in sorted(set(recorded) - {case.name for case in CASES}):
        print(f"{name}: recorded, and no case any more")
        unexplained += 1
    print(f"{len(cases)} cases: {explained} fields changed as {CHANGES.name} says, {unexplained} without a reason")
    return 1 if unexplained else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("check", "record"))
    parser.add_argument("--tier", choices=("quick", "all"), default="quick")
    parser.add_argument("--only", default="*", help="check: cases whose name matches")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="record_home.") as home:
        kept = isolated(dict(os.environ), Path(home)) | {"NUMBA_NUM_THREADS": "1", "TZ": "UTC"}
        os.environ.clear()
        os.environ.update(kept)
        return _do(asked)


def _do(asked: argparse.Namespace) -> int:
    if asked.what == "check":
        return _check([case for case in CASES if (asked.tier == "all" or case.quick) and fnmatchcase(case.name, asked.only)])
    records = list(_run(CASES))
    if crashed := [record for record in records if "crash" in record]:
        print(*(f"{record['case']}: {record['crash']}" for record in crashed), sep="\n")
        return 1
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    with lzma.open(ANSWERS, "wt", encoding="utf-8", preset=9) as file:
        file.write("\n".join(lines) + "\n")
    CHANGES.write_text("case,field,why\n", encoding="utf-8")
    print(f"{len(lines)} cases recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
