"""Writing tables into results/NAME.md, below the text that says what was measured."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
MARK = "<!-- measured -->\n"


def machine() -> str:
    try:
        model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        name = model[1] if model else platform.processor()
    except OSError:
        name = platform.processor()
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, {datetime.date.today().isoformat()}"


def record(name: str, text: str) -> None:
    """Replace what stands below the mark of a benchmark's file."""
    path = RESULTS / f"{name}.md"
    path.write_text(f"{path.read_text().split(MARK)[0]}{MARK}{text}\n")


def main(description: str, name: str, tables: Callable[[], str]) -> None:
    """Measure, print and, unless told otherwise, record."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-record", action="store_true", help="print only, leave benchmarks/results alone")
    arguments = parser.parse_args()
    text = tables()
    print(text)
    if not arguments.no_record:
        record(name, text)
