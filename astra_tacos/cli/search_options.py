"""What is asked of a search, for commands that synthesize: the collective, its chunks, the timing model, and how long to look."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from astra_tacos.cli.options import AutoOr
from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel
from astra_tacos.synthesizer.search.chunk_counts import MAX_SENDS

if TYPE_CHECKING:
    from astra_tacos.collective.collective import Collective
    from astra_tacos.synthesizer.search.search import SearchResult
    from astra_tacos.topology.topology import Topology

_OPTIONS = (
    click.option("--collective", type=click.Choice(list(COLLECTIVES)), default="all-reduce", show_default=True),
    click.option(
        "--root",
        type=click.IntRange(0),
        metavar="NPU",
        help="Where a broadcast, reduce, scatter or gather begins or ends; by default 0.",
    ),
    click.option(
        "--chunks-per-npu",
        type=AutoOr(),
        default="auto",
        show_default=True,
        help="Chunks in an NPU's shard, or part for another NPU; of a broadcast or reduce, in all. auto tries several numbers.",
    ),
    click.option(
        "--max-sends",
        type=click.IntRange(1),
        default=MAX_SENDS,
        show_default=True,
        help="Largest schedule that --chunks-per-npu auto cuts into more than one chunk per NPU for.",
    ),
    click.option(
        "--link-model",
        type=click.Choice([*LINK_MODELS, "auto"]),
        default="auto",
        show_default=True,
        help="How long a send holds its link; auto takes what stock ASTRA-sim comes closest to.",
    ),
    click.option(
        "--reduce-bandwidth", type=float, default=0.0, metavar="GB/s", help="Speed of a reduction; 0, the default, is 1 ns."
    ),
    click.option(
        "--trials", type=click.IntRange(1), help="Seeds of a random synthesizer; by default 1 to 32, fewer for larger networks."
    ),
    click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="First seed; the same seed, the same bytes."
    ),
    click.option("--threads", type=click.IntRange(1), help="Candidates at a time; by default one per core."),
)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The options above, as given."""

    collective: str
    root: int | None
    chunks_per_npu: int | None
    max_sends: int
    link_model: LinkModel | Literal["auto"]
    reduce_bandwidth: float
    trials: int | None
    seed: int
    budget: float | None
    threads: int | None

    def make_collective(self, num_npus: int, size_bytes: int) -> Collective:
        """The collective of that size, in one chunk per NPU where the search is to choose."""
        return make_collective(self.collective, num_npus, size_bytes, self.chunks_per_npu or 1, self.root)

    def search(
        self,
        topology: Topology,
        collective: Collective,
        synthesizer: str,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> SearchResult:
        """Search for the best schedule."""
        from astra_tacos.synthesizer.search.search import search

        return search(
            topology,
            collective,
            synthesizer=synthesizer,
            recut=self.chunks_per_npu is None,
            max_sends=self.max_sends,
            link_model=self.link_model,
            reduce_bandwidth_gbps=self.reduce_bandwidth,
            trials=self.trials,
            seed=self.seed,
            budget_s=self.budget,
            threads=self.threads,
            on_progress=on_progress,
        )


def search_options(budget_s: float | None, budget_help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options, checked, given to the command as `request`; commands differ in their default budget."""
    budget = click.option(
        "--budget", type=float, metavar="SECONDS", default=budget_s, show_default=budget_s is not None, help=budget_help
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        decorated = _with_request(command)
        for option in (budget, *reversed(_OPTIONS)):
            decorated = option(decorated)
        return decorated

    return decorate


def _with_request(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def with_request(*arguments: Any, **options: Any) -> None:
        names = SearchRequest.__dataclass_fields__
        request = SearchRequest(**{name: options.pop(name) for name in names})
        if request.root is not None and request.collective not in ROOTED:
            raise click.UsageError(f"--root is for {', '.join(sorted(ROOTED))}: {request.collective} has none.")
        speed = request.reduce_bandwidth
        if not math.isfinite(speed) or speed < 0:
            raise click.BadParameter(f"{speed} is not a number of GB/s, 0 or more.", param_hint="'--reduce-bandwidth'")
        if request.budget is not None and not request.budget > 0:
            raise click.BadParameter(f"{request.budget} is not a number of seconds above 0.", param_hint="'--budget'")
        command(*arguments, request=request, **options)

    return with_request
