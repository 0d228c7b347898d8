"""Executes the tutorials: python docs/site/run_notebooks.py [--check]

Without `--check` the notebooks are written back with their outputs. With it nothing is written, and a text output that differs
from the stored one is an error, so that what readers see is what the program prints.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parents[1] / "tutorials"
TIMEOUT_S = 900
_VARIES = re.compile(r"\d+:\d\d:\d\d|/tmp/\S+")
"""What no two executions have in common: durations and temporary directories."""


def main() -> None:
    """Execute all tutorials, and write or compare them."""
    is_check = sys.argv[1:] == ["--check"]
    differing = []
    for path in sorted(FOLDER.glob("*.ipynb")):
        stored = nbformat.read(path, 4)
        before = texts(stored)
        NotebookClient(stored, timeout=TIMEOUT_S, coalesce_streams=True, resources={"metadata": {"path": FOLDER}}).execute()
        for cell in stored.cells:
            cell.metadata.pop("execution", None)  # times of day
        if not is_check:
            nbformat.write(stored, path)
        elif texts(stored) != before:
            differing += [
                f"{path.name}, cell {number}: found\n{now}\nexpected\n{then}"
                for number, (now, then) in enumerate(zip(texts(stored), before, strict=True))
                if now != then
            ]
    if differing:
        sys.exit("\n\n".join([*differing, "run docs/site/run_notebooks.py to store what the notebooks print now"]))


def texts(notebook: NotebookNode) -> list[str]:
    """What each cell printed, without what varies."""
    return [_VARIES.sub("...", "".join(output.get("text", "") for output in cell.get("outputs", []))) for cell in notebook.cells]


if __name__ == "__main__":
    main()
