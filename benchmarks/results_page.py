"""Writing tables into docs/results.md."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "docs" / "results.md"


def machine() -> str:
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        name = model[1] if model else platform.processor()
    except OSError:
        name = platform.processor()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, {datetime.date.today().isoformat()}"


def record(name: str, text: str) -> None:
    """Put a table between the marks of its name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = RESULTS.read_text().split(begin)
    RESULTS.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")


def main(description: str, name: str, tables: Callable[[], str]) -> None:
    """Measure, print and, unless told otherwise, record."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-record", action="store_true", help="print only, leave docs/results.md alone")
    arguments = parser.parse_args()
    text = tables()
    print(text)
    if not arguments.no_record:
        record(name, text)
