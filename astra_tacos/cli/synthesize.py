"""`astra-tacos synthesize`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import click

from astra_tacos.cli.console import print_json, progress
from astra_tacos.cli.options import Size, json_option, network_option
from astra_tacos.collective import COLLECTIVES, ROOTED, make_collective
from astra_tacos.export.chakra import LINK_ORDERS, LinkOrder
from astra_tacos.schedule.timing import LINK_MODELS, LinkModel
from astra_tacos.synthesizer import SYNTHESIZERS


@click.command()
@network_option
@click.option("--collective", type=click.Choice(list(COLLECTIVES)), default="all-reduce", show_default=True)
@click.option(
    "--size",
    "size_bytes",
    type=Size(),
    required=True,
    help="64MiB, 1GB, 4096: what a workload node calls comm_size (all-gather, gather: one NPU's shard; else the whole buffer).",
)
@click.option(
    "--root",
    type=click.IntRange(0),
    metavar="NPU",
    help="Where a broadcast, reduce, scatter or gather begins or ends; by default 0.",
)
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Write an ASTRA-sim run directory here.")
@click.option(
    "--chunks-per-npu",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Chunks in an NPU's shard, or in its part for another NPU; of a broadcast or reduce, in all.",
)
@click.option("--synthesizer", type=click.Choice(list(SYNTHESIZERS)), default="tacos", show_default=True)
@click.option(
    "--link-model",
    type=click.Choice([*LINK_MODELS, "auto"]),
    default="auto",
    show_default=True,
    help="How long a send holds its link; auto takes what stock ASTRA-sim can replay exactly.",
)
@click.option(
    "--link-order",
    type=click.Choice(LINK_ORDERS),
    help="How traces keep the order of sends on a link; by default what fits the link model.",
)
@click.option(
    "--reduce-bandwidth", type=float, default=0.0, metavar="GB/s", help="Speed of a reduction; 0, the default, is 1 ns."
)
@click.option("--trials", type=click.IntRange(1), help="Seeds to try; by default 1 to 32, fewer for larger networks.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="First seed; the same seed, the same bytes.")
@click.option("--threads", type=click.IntRange(1), help="Trials at a time; by default one per core.")
@click.option("--verify/--no-verify", "with_checks", default=True, help="Have the oracle check, and the replay time, the result.")
@json_option
def synthesize(
    network_path: Path | None,
    collective: str,
    size_bytes: int,
    root: int | None,
    output: Path | None,
    chunks_per_npu: int,
    synthesizer: str,
    link_model: LinkModel | Literal["auto"],
    link_order: LinkOrder | None,
    reduce_bandwidth: float,
    trials: int | None,
    seed: int,
    threads: int | None,
    with_checks: bool,
    as_json: bool,
) -> None:
    """Synthesize a collective algorithm for a network; verify, replay and write it.

    With --output, DIR holds all that ASTRA-sim needs: Chakra traces of the collective and a workload that runs it, the
    system and network files, an MSCCL XML (if the format has the collective), and run_astra_sim.sh.
    """
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.config.network import read_network
    from astra_tacos.schedule.timing import choose_link_model
    from astra_tacos.synthesizer.search import synthesize as search
    from astra_tacos.topology.composition import build_topology

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    if root is not None and collective not in ROOTED:
        raise click.UsageError(f"--root is for {', '.join(sorted(ROOTED))}: {collective} has none.")
    if not math.isfinite(reduce_bandwidth) or reduce_bandwidth < 0:
        raise click.BadParameter(f"{reduce_bandwidth} is not a number of GB/s, 0 or more.", param_hint="'--reduce-bandwidth'")
    if output is not None:
        from astra_tacos.export.run_directory import check_output

        check_output(output)
    topology = build_topology(read_network(network_path))
    what = make_collective(collective, topology.num_npus, size_bytes, chunks_per_npu, root)
    reason = choose_link_model(topology, what)[1] if link_model == "auto" else ""
    with progress("synthesizing") as on_progress:
        schedule = search(
            topology,
            what,
            synthesizer=synthesizer,
            link_model=link_model,
            reduce_bandwidth_gbps=reduce_bandwidth,
            trials=trials,
            seed=seed,
            threads=threads,
            on_progress=on_progress,
        )
    if with_checks:
        with progress("verifying"):
            _check(schedule)
    more = {"link_model_reason": reason, "verified": with_checks}
    rows: list[tuple[str, str]] = []
    if output is not None:
        from astra_tacos.export.run_directory import write_run_directory

        with progress("writing"):
            run = write_run_directory(schedule, output, more, link_order)
        where = {
            "output": str(run.path),
            "astra_sim_backend": run.network.backend,
            "astra_sim_exact": run.is_exact,
            "notes": list(run.notes),
        }
        result = run.result | where
        rows = [("files", str(run.path)), *(("note", note) for note in run.notes), ("run", run.command)]
    else:
        result = certify(schedule) | more | {"output": None, "notes": []}
    if as_json:
        print_json(result)
        return
    _print(result, rows, with_checks)


def _check(schedule: Any) -> None:
    """The oracle has no objection, and the embedded replay takes exactly the predicted time."""
    from astra_tacos.errors import VerificationError
    from astra_tacos.replayer.schedule_replay import replay_schedule
    from astra_tacos.verifier.schedule_oracle import check

    check(schedule)
    replayed = replay_schedule(schedule).collective_time_ns
    if replayed != schedule.collective_time_ns:
        raise VerificationError(f"the replay takes {replayed} ns, {schedule.collective_time_ns} ns were predicted")


def _print(result: dict[str, Any], rows: list[tuple[str, str]], with_checks: bool) -> None:
    from astra_tacos.report.table import print_rows, synthesis_rows

    checks = "verified; the replay takes exactly the predicted time" if with_checks else "not verified"
    print_rows([*synthesis_rows(result), ("checks", checks), *rows])
    if not rows:
        click.echo("\nNothing was written: add --output DIR for the traces.")
