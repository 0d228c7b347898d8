"""Hooks of the documentation site: pages and files that live outside `docs/`, and links that lead there.

The same Markdown serves readers of the repository and of the site. In the repository, README.md links to `docs/plan.md`, and
docs/sweep.md to `../configs/sweep`; on the site all of them are pages or files below its root.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

import astra_tacos

ROOT = Path(__file__).parents[2]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples.md",
}
"""Pages outside `docs/`, and what they are called on the site."""
_FOLDER = "configs"
_LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the root of the repository and the shipped configurations, each folder with a page that lists it."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=_rewritten((ROOT / source).read_text(encoding="utf-8"), name, "")))
    files.append(File.generated(config, "reference.md", content=_reference()))
    for folder in [ROOT / _FOLDER, *sorted(path for path in (ROOT / _FOLDER).rglob("*") if path.is_dir())]:
        place = folder.relative_to(ROOT).as_posix()
        readme = folder / "README.md"
        entries = sorted((path for path in folder.iterdir() if path != readme), key=lambda path: (path.is_file(), path.name))
        lines = [f"- [{entry.name}]({entry.name}{'' if entry.is_file() else '/index.md'})" for entry in entries]
        if len(entries) <= 64:
            page = f"{place}/index.md"
            head = _rewritten(readme.read_text(encoding="utf-8"), page, ".") if readme.exists() else f"# {place}\n"
            files.append(File.generated(config, page, content=f"{head}\n" + "\n".join(lines) + "\n"))
        for entry in entries:
            if entry.is_file():
                files.append(File.generated(config, f"{place}/{entry.name}", abs_src_path=str(entry)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of a page of `docs/` to what is outside it."""
    return markdown if page.file.src_uri in PAGES.values() else _rewritten(markdown, page.file.src_uri, "docs")


def _reference() -> str:
    """A page with every public name of the package."""
    lines = ["# API reference", "", "Every name that `astra_tacos` exports. [What they are for](api.md).", ""]
    for name in astra_tacos.__all__:
        value = getattr(astra_tacos, name)
        if hasattr(value, "__qualname__"):
            lines.append(f"::: {value.__module__}.{value.__qualname__}")
    return "\n".join(lines) + "\n"


def _rewritten(markdown: str, page: str, home: str) -> str:
    """Markdown whose links, relative to the folder `home` of the repository, are relative to the site's page instead."""

    def target(match: re.Match[str]) -> str:
        parts: list[str] = []
        for part in PurePosixPath(home, *PurePosixPath(page).parent.parts if home else (), match[1]).parts:
            if part == "..":
                parts.pop()
            else:
                parts.append(part)
        path = "/".join(parts)
        on_site = PAGES.get(path) or path.removeprefix("docs/")
        if (ROOT / path).is_dir():
            on_site += "/index.md"
        up = "../" * (len(PurePosixPath(page).parts) - 1)
        return up + on_site

    return _LINK.sub(target, markdown)
