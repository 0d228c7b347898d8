"""`astra-tacos synthesize`: a collective algorithm for a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.console import echo, print_json, print_rows, progress
from astra_tacos.cli.counts import Counts
from astra_tacos.cli.first_use import CHECKING, REPLAYING, WRITING, compile_ahead, finding_optimum, searching
from astra_tacos.cli.options import Size, backend_option, json_option, network_option, ns3_option, with_ns3
from astra_tacos.cli.search_options import asked_collective, asked_parts, search_options, unequal_collective_options
from astra_tacos.cli.symmetric import check_sends, print_compact, synthesize_compact, takes_symmetric
from astra_tacos.errors import ConfigError
from astra_tacos.export.chakra import LINK_ORDERS, LinkOrder, order_of_traces
from astra_tacos.run.backend import is_packet_level

if TYPE_CHECKING:
    from astra_tacos.config.sketch import Sketch
    from astra_tacos.run.backend import Backend
    from astra_tacos.schedule.schedule import Schedule
    from astra_tacos.synthesizer.search.search import SearchResult
    from astra_tacos.synthesizer.search.search_options import SearchOptions
    from astra_tacos.topology.topology import Topology


@click.command()
@network_option
@click.option(
    "--size",
    "size_bytes",
    type=Size(),
    help="64MiB, 1GB, 4096: the comm_size of a workload node (all-gather, gather: one NPU's shard; else the whole buffer).",
)
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Write an ASTRA-sim run directory here.")
@click.option(
    "--sketch",
    "sketch_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Use only the links that this sketch allows (YAML: chunks, allow, forbid, relays), and say what that costs.",
)
@unequal_collective_options
@click.option(
    "--helpers",
    type=Counts(),
    metavar="IDS",
    help="NPUs without data of their own, which may add and pass on what others send: 8,9 or 8:11 (parameter servers).",
)
@search_options()
@backend_option(of_schedules=True, packets=True)
@ns3_option
@click.option(
    "--link-order",
    type=click.Choice(LINK_ORDERS),
    help="How traces keep the order of sends on a link; by default the one for the link model.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1),
    metavar="W",
    help="Let W messages be in flight on a link (link order window); by default as many as the schedule has.",
)
@click.option(
    "--msccl-xml/--no-msccl-xml",
    default=None,
    help="Whether --output has an MSCCL XML; by default up to 200,000 sends.",
)
@click.option("--verify/--no-verify", "with_checks", default=True, help="Check the schedule by the oracle and the replay.")
@json_option
def synthesize(
    network_path: Path | None,
    size_bytes: int | None,
    output: Path | None,
    sketch_path: Path | None,
    collective_name: str,
    matrix: str | None,
    root: int | None,
    helpers: tuple[int, ...] | None,
    options: SearchOptions,
    backend: Backend | None,
    ns3_config: Path | None,
    link_order: LinkOrder | None,
    in_flight: int | None,
    msccl_xml: bool | None,
    with_checks: bool,
    as_json: bool,
) -> None:
    """Synthesize a collective algorithm for a network, and verify, replay and write it.

    With --output, DIR gets everything that ASTRA-sim needs: Chakra traces of the collective and a workload that runs it, the
    system and network files, an MSCCL XML (if the format supports the collective), and run_astra_sim.sh.

    On networks that look the same from every NPU, schedules of more sends than --max-sends are made for NPU 0's chunks only:
    all other NPUs do the same. DIR gets schedule.npz with these sends, and no traces.

    Other schedules list their sends. More than 50 million, on networks whose links are direct and all alike, are refused.
    """
    from astra_tacos.config.network import read_network
    from astra_tacos.config.sketch import read_sketch

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    if size_bytes is None and matrix is None:
        raise click.UsageError("Missing option '--size'.")
    if output is not None:
        from astra_tacos.export.run_directory import EXPORTER

        EXPORTER.check_output(output)
    network = with_ns3(read_network(network_path), ns3_config, backend)
    replays_packets = is_packet_level(backend)
    sketch = None if sketch_path is None else read_sketch(sketch_path)
    if sketch is not None and replays_packets:
        raise click.UsageError(f"--sketch: schedules under a sketch are not compared on the {backend} backend.")
    if sketch is not None and sketch.chunks is not None and options.chunks_per_npu == "auto":
        options = replace(options, chunks_per_npu=sketch.chunks)
    if helpers is not None and matrix is not None:
        raise click.UsageError("--helpers is for collectives with a size: all NPUs of a matrix of sizes take part.")
    is_plain = sketch is None and helpers is None and matrix is None
    is_open = is_plain and backend is None and link_order is None and in_flight is None
    if is_plain and size_bytes is not None and takes_symmetric(network, collective_name, options):
        _check_rows(backend)
        result, text = synthesize_compact(network, (collective_name, size_bytes), options, backend, output, with_checks)
        print_json(result) if as_json else print_compact(result, text)
        return
    # Below, as they load what replays traces: that takes longer than to synthesize a symmetric schedule.
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.judge.judgement import judge_schedule, with_other_choices
    from astra_tacos.judge.judges import backend_in_use, backend_that_runs, timed_for
    from astra_tacos.judge.native import NativeTimesAhead
    from astra_tacos.judge.packet_search import search_and_replay
    from astra_tacos.judge.robust import robust
    from astra_tacos.run.backend import backend_of_model
    from astra_tacos.schedule.moved import moved_to
    from astra_tacos.solve.schedule_check import check_schedule
    from astra_tacos.synthesizer.search.search import known_optimum
    from astra_tacos.synthesizer.work import CHECKS, JUDGING
    from astra_tacos.topology.composition import build_topology
    from astra_tacos.topology.sketched import under_sketch

    topology = build_topology(network, may_forward=True)
    parts = asked_parts(matrix, topology.num_endpoints, size_bytes)
    what = asked_collective(
        collective_name, topology.num_npus, size_bytes or 0, root, options, _members(topology, helpers), parts
    )
    options, models, reason = timed_for(options, topology, backend)
    asked, backend = backend, backend_in_use(network, models, backend)
    if is_plain and "tacos" in options.synthesizers and topology.is_uniform and not topology.has_switches:
        check_sends(network, collective_name, options)
    searched, links = (topology, None) if sketch is None else under_sketch(topology, sketch)
    kernels = searching(searched, what)
    later = (*REPLAYING, *(CHECKING if with_checks else ()), *(WRITING if output is not None else ()))
    found = None
    if not replays_packets:
        compile_ahead(*finding_optimum(searched, what, options), later=(*kernels, *later))
        found = known_optimum(searched, what, options)
    rivals = NativeTimesAhead(network, what, options.reduce_bandwidth_gbps)
    if found is None:
        compile_ahead(*kernels, later=later)
        if not replays_packets:
            rivals.begin(backend or backend_of_model(models[0]))
        with progress("synthesizing") as on_progress:
            found, fastest_order = search_and_replay(
                backend,
                network,
                searched,
                what,
                options,
                on_progress,
                link_order,
                work_after=JUDGING + (CHECKS if with_checks else 0.0),
            )
            link_order = link_order or (fastest_order if in_flight is None else None)
        if replays_packets:
            reason = f"the fastest on the packet level, with link order {order_of_traces(found.schedule, link_order)[0]}"
    note, level = "", None
    if is_open:
        with progress("replaying packet by packet"):
            chosen = robust(network, topology, what, options, backend, found)
        found, link_order, note, level = chosen.found, chosen.link_order, chosen.note, chosen.level
    schedule = found.schedule if links is None else moved_to(found.schedule, topology, links)
    backend = backend_that_runs(schedule, backend, asked)
    if with_checks:
        with progress("verifying"):
            check_schedule(schedule)
    with progress("judging"):
        judged = judge_schedule(schedule, network, backend, link_order, in_flight, beside=True, level=level)
        if sketch is None:
            judged = with_other_choices(judged, schedule, network, options)
        natives = rivals.on(judged.backend)
        padded = _padded(schedule)
        slower = natives.faster_than(judged.possible_ns, padded or _why_slower(found, options))
        judged = replace(judged, notes=(*filter(None, [note]), *judged.notes, *filter(None, [padded]), *slower))
    order, _ = order_of_traces(schedule, link_order, in_flight)
    more = {"link_model_reason": reason, "link_order": order, "verified": with_checks, "search": found.describe()}
    more |= judged.to_json()
    more |= {"native": natives.to_json()}
    if sketch is not None:
        more["sketch"] = _cost_of_sketch(sketch, searched, schedule)
    rows: list[tuple[str, str]] = []
    if output is not None:
        from astra_tacos.export.run_directory import write_run_directory

        with progress("writing"):
            run = write_run_directory(
                schedule, output, more, link_order, msccl_xml, backend=judged.backend, in_flight=in_flight, check=False
            )
        result = run.result | {"output": str(run.path), **run.figures, "notes": [*run.notes, *judged.notes]}
        rows = [("files", str(run.path)), *(("note", note) for note in run.notes)]
        rows += [("run", run.command)] if run.command else []
    else:
        result = certify(schedule) | more | {"output": None, "notes": list(judged.notes)}
    if as_json:
        print_json(result)
        return
    if sketch is not None:
        rows.append(("sketch", _describe_sketch(result["sketch"])))
    rows = [*(("note", note) for note in judged.notes), *rows]
    _print(result, rows, with_checks)


def _cost_of_sketch(sketch: Sketch, searched: Topology, schedule: Schedule) -> dict[str, Any]:
    """What a sketch leaves, and the bounds with it and without."""
    from astra_tacos.bounds import lower_bound
    from astra_tacos.bounds.certificate import efficiency_of
    from astra_tacos.schedule.timing import compute_timing

    topology, timing = schedule.topology, schedule.timing
    own = compute_timing(searched, schedule.collective, timing.link_model, timing.reduce_bandwidth_gbps)
    with_it, without = (lower_bound(on, schedule.collective, delays) for on, delays in ((searched, own), (topology, timing)))
    larger = max(with_it, without, key=lambda bound: bound.time_ns)  # what bounds any algorithm bounds those under the sketch
    return {
        "file": str(sketch.path),
        "links": searched.num_links,
        "links_left_out": topology.num_links - searched.num_links,
        "bound_ns": larger.time_ns,
        "bound_without_ns": without.time_ns,
        "bound": larger.name,
        "bound_where": larger.where,
        "efficiency": efficiency_of(schedule.collective_time_ns, larger.time_ns),
    }


def _describe_sketch(sketch: dict[str, Any]) -> str:
    from astra_tacos.units import format_time

    more = sketch["bound_ns"] / max(sketch["bound_without_ns"], 1) - 1
    # A bound that no algorithm reaches may lie anywhere below the best time, so a ratio of bounds proves no cost by itself.
    cost = f"at least {more:.1%} slower than what reaches the latter" if more > 0.0005 else "no bound knows of a cost"
    share = "" if sketch["efficiency"] is None else f"; the schedule is at {sketch['efficiency']:.1%} of the former"
    text = f"{sketch['file']} leaves out {sketch['links_left_out']:,} of {sketch['links'] + sketch['links_left_out']:,} links: "
    bounds = f"bound {format_time(sketch['bound_ns'])} under it, {format_time(sketch['bound_without_ns'])} without"
    return f"{text}{bounds}: {cost}{share}"


def _members(topology: Topology, helpers: tuple[int, ...] | None) -> list[int] | None:
    """The NPUs that take part, None for all of a network without devices that forward."""
    if helpers is None:
        return topology.endpoints
    members = [npu for npu in range(topology.num_endpoints) if npu not in helpers]
    if max(helpers) >= topology.num_endpoints or len(members) < 2:
        found = f"{len(helpers)} of {topology.num_endpoints} NPUs" if len(members) < 2 else f"NPU {max(helpers)}"
        raise ConfigError(f"--helpers: found {found}, expected NPUs of the network, and two or more others")
    return members


def _check_rows(backend: Backend | None) -> None:
    """The packet level times messages one by one, which compact schedules do not have."""
    if is_packet_level(backend):
        raise ConfigError(
            f"--backend {backend}: the schedule has too many sends for its messages to be timed, expected fewer NPUs"
        )


def _padded(schedule: Schedule) -> str:
    """A note on messages that are longer on links than what they carry, "" if there are none."""
    from astra_tacos.schedule.timing import wire_bytes
    from astra_tacos.units import format_size

    channel = schedule.channel[schedule.message_row]
    sent = wire_bytes(schedule.topology, schedule.message_bytes, channel, schedule.timing.link_model)
    longer = sent[sent > schedule.message_bytes]
    if not len(longer):
        return ""
    size = format_size(int(longer.min())) if longer.min() == longer.max() else f"{format_size(int(longer.min()))} and more"
    return f"shorter messages are sent as {size}, which take a link 1 ns: ASTRA-sim's queues stop at less at time 0"


def _why_slower(found: SearchResult, options: SearchOptions) -> str:
    """Why a search found no schedule as fast as a native algorithm."""
    from astra_tacos.synthesizer.search.search_options import FASTEST

    if found.schedule.timing.is_blocking and options.link_model != FASTEST:
        return "sends of the schedule hold their links until they arrive: one by --link-model fastest may be faster"
    if found.was_cut_off:
        return "the budget cut the search off: a larger --budget may find a faster schedule"
    if found.is_near_bound:
        return "the schedule is within 0.5% of what any algorithm needs, and no other one was tried"
    return "no schedule that was tried is as fast"


def _print(result: dict[str, Any], rows: list[tuple[str, str]], with_checks: bool) -> None:
    from astra_tacos.report.table import synthesis_rows

    checks = "verified; the replay takes exactly the predicted time" if with_checks else "not verified"
    print_rows([*synthesis_rows(result), ("checks", checks), *rows])
    if result["output"] is None:
        echo("\nNothing was written: add --output DIR for the traces.")
