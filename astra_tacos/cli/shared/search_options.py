"""Options of commands that synthesize: the collective, its chunks, the timing model, and the effort of the search."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.console import compile_ahead, progress
from astra_tacos.cli.shared.options import PATH, Command, Decorator, OneOf
from astra_tacos.cli.shared.request_options import request_options
from astra_tacos.collective import COLLECTIVES, ROOTED, UNEQUAL
from astra_tacos.solver.first_use import PROGRAMS
from astra_tacos.synthesizer.search.search_options import SearchOptions

if TYPE_CHECKING:
    from astra_tacos.export.candidate import Candidate
    from astra_tacos.support.arrays import Ints


def search_options(without: Collection[str] = (), defaults: SearchOptions = SearchOptions(chunks_per_npu="auto")) -> Decorator:  # noqa: B008 (frozen)
    """What `SearchOptions` has, given to the command as `options`; see `request_options`."""
    return request_options(SearchOptions, "options", without=without, defaults=defaults, is_whole=True)


def unequal_collective_options(command: Command) -> Command:
    """--collective, --root and --matrix, given to the command as `collective_name`, `root` and `matrix`."""

    @functools.wraps(command)
    def with_matrix(*arguments: Any, collective_name: str, matrix: str | None, **others: Any) -> None:
        names = ", ".join(UNEQUAL)
        if matrix is not None and collective_name not in UNEQUAL:
            raise click.UsageError(f"--matrix is for --collective {names}: {collective_name} has parts of equal sizes.")
        if matrix is None and collective_name in UNEQUAL:
            raise click.UsageError(f"--collective {collective_name} needs --matrix, the sizes of its parts.")
        command(*arguments, collective_name=collective_name, matrix=matrix, **others)

    decorated = click.option(
        "--matrix",
        metavar="FILE|zipf",
        help="Sizes of the parts of an all-to-allv: a CSV with a line for each NPU and in it a field for each target (0, 64KiB, "
        "...); or zipf, zipf:1.2, zipf:skew=1.2,token=14336,seed=3: --size bytes of each NPU in tokens to experts of unequal "
        "popularity, one on each NPU.",
    )(with_matrix)
    return collective_options(decorated, [*COLLECTIVES, *UNEQUAL])


def asked_parts(matrix: str | None, num_npus: int, size_bytes: int | None) -> Ints | None:
    """What --matrix says; None if it is not given.

    Parameters
    ----------
    size_bytes
        Bytes of each NPU for the generator; None if they are not given.
    """
    if matrix is None:
        return None
    from astra_tacos.collective.all_to_allv import ZIPF, parse_zipf
    from astra_tacos.support.formats.csv_files import read_matrix

    if matrix.partition(":")[0] == ZIPF:
        if size_bytes is None:
            raise click.UsageError(f"--matrix {ZIPF} needs --size, the bytes of each NPU.")
        return parse_zipf(matrix, num_npus, size_bytes)
    if size_bytes is not None:
        raise click.UsageError("--size: --matrix says all sizes, expected one of the two.")
    return read_matrix(Path(matrix))


def collective_options(command: Command, names: Sequence[str] = tuple(COLLECTIVES)) -> Command:
    """--collective and --root, given to the command as `collective_name` and `root`."""

    @functools.wraps(command)
    def with_collective(*arguments: Any, collective_name: str, root: int | None, **others: Any) -> None:
        if root is not None and collective_name not in ROOTED:
            raise click.UsageError(f"--root is for {', '.join(sorted(ROOTED))}: {collective_name} has none.")
        command(*arguments, collective_name=collective_name, root=root, **others)

    decorated = click.option(
        "--root",
        type=click.IntRange(0),
        metavar="NPU",
        help="Root of a broadcast, reduce, scatter or gather; by default 0.",
    )(with_collective)
    return click.option("--collective", "collective_name", type=OneOf(list(names)), default="all-reduce", show_default=True)(
        decorated
    )


candidate_option = click.option(
    "--candidate",
    "candidate_paths",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Also try this program (MSCCL XML, MSCCL++ plan), after the oracle has proven it correct; may be given several times.",
)


def read_candidates(paths: tuple[Path, ...]) -> tuple[Candidate, ...]:
    """The programs of --candidate, proven."""
    if not paths:
        return ()
    from astra_tacos.export.candidate import read_candidate

    compile_ahead(*PROGRAMS)
    with progress("proving candidates"):
        candidates = [read_candidate(path) for path in paths]
    names = [candidate.name for candidate in candidates]
    if len(set(names)) < len(names):
        raise click.UsageError("--candidate: found two files of one name, expected names that tell them apart.")
    return tuple(candidates)
