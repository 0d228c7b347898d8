"""Whether README.md shows what the demo printed: make demo | tee demo.log; python tests/helpers/readme_output.py demo.log"""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
_SHOWN = re.compile(r"^ {4,6}([a-z][^\n:`]*? {2,}\S.*)$", re.MULTILINE)
"""A row of what a command prints: a label, spaces, a value."""


def shown_rows(text: str) -> list[str]:
    """Rows of commands' output in a Markdown text."""
    return [row for row in _SHOWN.findall(text) if not row.startswith(("astra-tacos ", "make "))]


def missing_rows(text: str, printed: str) -> list[str]:
    """Those that were not printed, whatever the spaces."""
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    return [row for row in shown_rows(text) if " ".join(row.split()) not in lines]


if __name__ == "__main__":
    missing = missing_rows(README.read_text(encoding="utf-8"), Path(sys.argv[1]).read_text(encoding="utf-8"))
    for row in missing:
        print(f"README.md shows what the demo does not print: {row}", file=sys.stderr)
    sys.exit(bool(missing))
