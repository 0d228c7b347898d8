"""Options of commands that synthesize: the collective, its chunks, the timing model, and the effort of the search."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.shared.console import compile_ahead, progress
from astra_tacos.cli.shared.options import BUDGET, PATH, AutoOr, Command, Decorator, OneOf
from astra_tacos.collective import COLLECTIVES, ROOTED, UNEQUAL
from astra_tacos.schedule.timing import LINK_MODELS
from astra_tacos.solver.first_use import PROGRAMS
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS
from astra_tacos.synthesizer.chunk_counts import MAX_SENDS
from astra_tacos.synthesizer.search.search_options import DEFAULT, EFFORTS, MOST_TRIALS, SearchOptions
from astra_tacos.synthesizer.work import SENDS_PER_SECOND

if TYPE_CHECKING:
    from astra_tacos.export.candidate import Candidate
    from astra_tacos.support.arrays import Ints


class _Option:
    """An option of the command line, of which commands may change the default."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings

    def __call__(self, command: Command, **changes: Any) -> Command:
        return click.option(*self.names, **(self.settings | changes))(command)


_OPTIONS = {
    "synthesizer": _Option(
        "--synthesizer",
        type=OneOf([AUTO, *SYNTHESIZERS]),
        default=AUTO,
        show_default=True,
        help="auto tries all synthesizers that support the collective; the fastest schedule wins.",
    ),
    "effort": _Option(
        "--effort",
        type=click.Choice(tuple(EFFORTS)),
        default=DEFAULT,
        show_default=True,
        help="How long to search: normal stops where the next step promises less than 1%, and replays no other models.",
    ),
    "budget": _Option(
        "--budget",
        type=BUDGET,
        metavar="SENDS",
        help="Work of a search, in sends examined, for those who count: 20M, "
        f"or 10s for {10 * SENDS_PER_SECOND // 1_000_000}M, about the work of one core in that time. The same on every machine.",
    ),
    "time_limit_s": _Option(
        "--time-limit",
        "time_limit_s",
        type=float,
        metavar="SECONDS",
        help="Wall time after which a search starts no candidate; by default none. If it strikes, results vary by machine.",
    ),
    "chunks_per_npu": _Option(
        "--chunks-per-npu",
        type=AutoOr(),
        default="auto",
        show_default=True,
        help="Chunks in an NPU's shard, or in its part for another NPU; for a broadcast or reduce, in all. auto tries several.",
    ),
    "max_sends": _Option(
        "--max-sends",
        type=click.IntRange(1),
        default=MAX_SENDS,
        show_default=True,
        help="Most sends of a schedule with more than one chunk per NPU that --chunks-per-npu auto tries.",
    ),
    "link_model": _Option(
        "--link-model",
        type=click.Choice([*LINK_MODELS, "fastest", "auto"]),
        default="auto",
        show_default=True,
        help="How long a send holds its link; auto: as stock ASTRA-sim replays exactly, else the faster of both.",
    ),
    "reduce_bandwidth_gbps": _Option(
        "--reduce-bandwidth",
        "reduce_bandwidth_gbps",
        type=float,
        default=0.0,
        metavar="GB/s",
        help="Speed of a reduction; 0, the default, is 1 ns.",
    ),
    "trials": _Option(
        "--trials",
        type=click.IntRange(1, MOST_TRIALS),
        help="Seeds of a random synthesizer; by default 1 to 32, fewer for larger networks.",
    ),
    "seed": _Option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="First seed; the same seed gives the same bytes."
    ),
    "threads": _Option(
        "--threads", type=click.IntRange(1), help="Threads, by default one per core; the result does not depend on their number."
    ),
}
"""By field of `SearchOptions`."""


def search_options(without: Collection[str] = (), **defaults: object) -> Decorator:
    """What `SearchOptions` has, given to the command as `options`.

    Parameters
    ----------
    without
        Fields that the command has no option for.
    defaults
        By field, the option's default for this command, if that is another than usual.
    """
    names = [name for name in _OPTIONS if name not in without]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_options(*arguments: Any, **given: Any) -> None:
            asked = {name: given.pop(name) for name in names}
            command(*arguments, options=SearchOptions(**asked), **given)

        decorated: Command = with_options
        for name in reversed(names):
            changes = {"default": defaults[name], "show_default": True} if name in defaults else {}
            decorated = _OPTIONS[name](decorated, **changes)
        return decorated

    return decorate


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
    from astra_tacos.support.text_files import read_matrix

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
    help="Also take this program (MSCCL XML, MSCCL++ plan), once the oracle has proven it; may be given several times.",
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
