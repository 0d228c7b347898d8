"""`report`: a page or a figure of what a command or a function wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.pages.style import FORMATS, WIDTHS, check_figure, save_figure
from astra_tacos.solver.first_use import Progress, silent
from astra_tacos.study.reporter.figure import OPTIONS, PAGE, find_figure
from astra_tacos.study.reporter.page import SWEEP, Wanted, find_page
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import check_writable, replaced_file
from astra_tacos.support.input_file import note_input
from astra_tacos.support.installation import require
from astra_tacos.support.quoted import quoted


@dataclass(frozen=True, slots=True)
class Reported:
    """A page or a figure that was written, and what it shows.

    Parameters
    ----------
    kind
        Of a page `schedule`, `plan`, `replay`, `sweep` or `comparison`; of a figure as `report` takes it.
    size_bytes
        The size of the file.

    Examples
    --------
    >>> from astra_tacos import report
    >>> reported = report("configs/network/torus_4x4.yml", "torus.svg")
    >>> reported.size_bytes == reported.path.stat().st_size
    True
    """

    kind: str
    path: Path
    size_bytes: int


def report(
    source: str | Path,
    output: str | Path = "report.html",
    *,
    title: str | None = None,
    compare: bool | None = None,
    network: str | Path | None = None,
    where: str | None = None,
    kind: str | None = None,
    width: str | None = None,
    chunk: int | None = None,
    most: int | None = None,
    x: str | None = None,
    y: str | None = None,
    value: str | None = None,
    by: str | None = None,
    typed: str | None = None,
    progress: Progress = silent,
) -> Reported:
    """Write a page to read, or a figure for a paper, of what was written before. The name of the output decides.

    Parameters
    ----------
    source
        Of a page: the directory of `solve`, `plan`, a replay, `compare` or `sweep`, or of any run, which is replayed first. Of a
        figure: also a network (.yml) or a schedule (.npz).
    output
        File to write: .html, .svg, .pdf or .png.
    title, compare, network
        Of pages: the heading; whether a schedule is compared with predefined algorithms (None: yes); the network of a run.
    where
        Of a sweep: only points for which this expression is true.
    kind, width, chunk, most, x, y, value, by
        Of figures: what to draw, None for what fits; its width, `double` (None) or `single`; and what it takes (docs/report.md).
    typed
        The command that a user typed, which errors complete; None in a program.

    Raises
    ------
    ConfigError
        If there is nothing to report on, or an argument is for another kind of output.
    MissingExtraError
        If the packages of the extra `report` or `plot` are not installed.

    Examples
    --------
    >>> from astra_tacos import report
    >>> report("configs/network/torus_4x4.yml", "torus.svg").kind
    'topology'
    """
    source, output = Path(source), Path(output)
    of_pages = {"title": title, "compare": compare, "network": network}
    of_figures: dict[str, Any] = {"kind": kind, "width": width, "chunk": chunk, "most": most, "x": x, "y": y, "value": value}
    of_figures |= {"by": by}
    suffix = output.suffix.lower()
    is_page = suffix == PAGE
    if suffix in FORMATS:
        check_figure(output)
    elif not is_page:
        raise ConfigError(f"{output}: expected a name that ends in {', '.join((PAGE, *FORMATS))}")
    if foreign := [name for name, given in (of_figures if is_page else of_pages).items() if given is not None]:
        is_made, belongs, name = ("page", "figures", ".svg or .pdf") if is_page else ("figure", "pages", PAGE)
        remedy = f"leave out {foreign[0]}, or choose a name that ends in {name}"
        raise ConfigError(f"{foreign[0]}: is for {belongs}, and {output} is a {is_made}: {remedy}")
    if width is not None and width not in WIDTHS:
        raise ConfigError(f"width: found {quoted(width)}, expected {' or '.join(WIDTHS)}")
    if is_page:
        wanted = Wanted(title, compare is not False, where, progress)
        with progress("making the page"):
            shown = _write_page(source, output, None if network is None else Path(network), wanted, typed)
    else:
        of_figures["where"] = where
        given = {name: of_figures[name] for name in OPTIONS if of_figures[name] is not None}
        shown, draw = find_figure(source, given)
        with progress("drawing"):
            save_figure(output, draw)
    return Reported(shown, output, output.stat().st_size)


def _write_page(source: Path, output: Path, network: Path | None, wanted: Wanted, typed: str | None) -> str:
    require("report")
    kind, directory, make = find_page(source, network, typed)
    if kind != SWEEP and wanted.where is not None:
        raise ConfigError(f"where: is for sweeps, and {source} is the output of another command")
    for file in directory.rglob("*"):
        note_input(file)
    check_writable(output)
    content = make(directory, wanted)
    with replaced_file(output) as temporary:
        temporary.write_bytes(content)
    return kind
