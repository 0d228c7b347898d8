"""`astra-tacos compare`: several synthesizers on one network, over a list of sizes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.console import echo, print_json, progress
from astra_tacos.cli.first_use import CHECKING, REPLAYING, compile_ahead, searching
from astra_tacos.cli.options import backend_option, json_option, network_option, ns3_option, with_ns3
from astra_tacos.cli.search_options import asked_collective, candidate_option, collective_options, read_candidates, search_options
from astra_tacos.cli.symmetric import check_sends
from astra_tacos.collective import make_collective
from astra_tacos.errors import ConfigError, OutputError, ReplayError, SynthesisError
from astra_tacos.files import check_writable, replaced_file, together, write_json
from astra_tacos.input_file import forget_inputs
from astra_tacos.report.compare_rows import IMPOSSIBLE_NATIVE, NATIVE, CompareRow
from astra_tacos.report.figure.figure_style import WIDTHS
from astra_tacos.synthesizer import AUTO, SYNTHESIZERS, auto_synthesizers
from astra_tacos.synthesizer.work import AUTO_BUDGET
from astra_tacos.units import MAX_SIZE_BYTES, parse_sizes

if TYPE_CHECKING:
    from astra_tacos.collective.collective import Collective
    from astra_tacos.config.network import NetworkConfig
    from astra_tacos.converter.candidate import Candidate
    from astra_tacos.export.chakra import LinkOrder
    from astra_tacos.judge.judgement import Judgement
    from astra_tacos.run.backend import Backend
    from astra_tacos.schedule.schedule import Schedule
    from astra_tacos.synthesizer.search.search import SearchResult
    from astra_tacos.synthesizer.search.search_options import SearchOptions
    from astra_tacos.topology.topology import Topology


class Sizes(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """`64KiB,1MiB`, or `64KiB:1GiB` for every size from the first on, four times larger each, up to the second."""

    name = "sizes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Sizes in bytes; see `click.ParamType`."""
        try:
            return parse_sizes(str(value))
        except ConfigError as error:
            return self.fail(str(error), param, ctx)


class Names(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """Names of synthesizers with commas between them, `auto` among them."""

    name = "names"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Names of synthesizers, without repetitions; see `click.ParamType`."""
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",")))
        for name in names:
            if name not in (AUTO, *SYNTHESIZERS):
                self.fail(f"found {name!r}, expected names out of {', '.join((AUTO, *SYNTHESIZERS))}", param, ctx)
        return names


def _draw(rows: list[CompareRow], path: Path, plot_width: str) -> None:
    from astra_tacos.report.figure.compare_plot import save_plot

    save_plot(rows, path, plot_width)


def _write_csv(rows: list[CompareRow], path: Path, plot_width: str) -> None:
    from astra_tacos.report.compare_rows import write_csv

    with replaced_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        write_csv(rows, file)


def _write_json(rows: list[CompareRow], path: Path, plot_width: str) -> None:
    with replaced_file(path) as temporary:
        write_json(temporary, _result(rows, []))


def _result(rows: list[CompareRow], files: list[Path]) -> dict[str, Any]:
    first = rows[0]
    what = {name: getattr(first, name) for name in ("network", "topology", "num_npus", "collective", "root")}
    return what | {"files": [str(path) for path in files], "rows": [asdict(row) for row in rows]}


_FILES = {"compare.csv": _write_csv, "compare.json": _write_json, "compare.svg": _draw, "compare.pdf": _draw}
"""What --output writes, and how."""


def _check_earlier(output: Path) -> None:
    """Check that files of these names in the directory, if there are any, are those of an earlier comparison."""
    from astra_tacos.report.compare_rows import read_rows

    tables = [output / name for name in _FILES if name.endswith((".csv", ".json"))]
    there = [output / name for name in _FILES if (output / name).exists()]
    try:
        for table in tables if there else []:
            read_rows(table)
    except ConfigError as error:
        text = f"{there[0]}: exists, and {output} is no comparison of astra_tacos ({error}): choose another output"
        raise OutputError(text) from None
    finally:
        forget_inputs(*tables)


@click.command()
@network_option
@click.option(
    "--sizes",
    type=Sizes(),
    required=True,
    help="64KiB,1MiB or 64KiB:1GiB (each size is four times the one before); as --size of synthesize.",
)
@click.option(
    "--synthesizers",
    type=Names(),
    default=auto_synthesizers,
    help="ring,direct,...,auto; by default all that auto tries.",
)
@candidate_option
@collective_options
@search_options(without=("synthesizer",), budget=f"{AUTO_BUDGET // 1_000_000}M")
@backend_option(of_schedules=True, packets=True)
@ns3_option
@click.option("--csv", "csv_path", type=click.Path(path_type=Path), metavar="FILE", help="Write a row per size and synthesizer.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw time and bus bandwidth: .svg, .pdf or .png.")
@click.option(
    "--plot-width",
    type=click.Choice(WIDTHS),
    default="double",
    show_default=True,
    help="Width of the figure in columns of a paper.",
)
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help=f"Write {', '.join(_FILES)} here.")
@click.option("--verify/--no-verify", "with_checks", default=True, help="Check each schedule by the oracle and the replay.")
@json_option
def compare(
    network_path: Path | None,
    sizes: tuple[int, ...],
    synthesizers: tuple[str, ...],
    candidate_paths: tuple[Path, ...],
    collective_name: str,
    root: int | None,
    options: SearchOptions,
    backend: Backend | None,
    ns3_config: Path | None,
    csv_path: Path | None,
    plot: Path | None,
    plot_width: str,
    output: Path | None,
    with_checks: bool,
    as_json: bool,
) -> None:
    """Compare synthesizers on a network and a collective over a list of sizes.

    The command prints a table of times, with those of ASTRA-sim's own algorithms by the replay (`native`). --csv, --plot and
    --output write its data, and a figure for a paper.
    """
    from astra_tacos.cli.compare_table import print_comparison
    from astra_tacos.config.network import read_network
    from astra_tacos.report.figure.figure_style import check_figure
    from astra_tacos.topology.composition import build_topology

    if network_path is None:
        raise click.UsageError("Missing option '--network'.")
    files = [(path, write) for path, write in ((csv_path, _write_csv), (plot, _draw)) if path is not None]
    files += [(output / name, write) for name, write in _FILES.items()] if output is not None else []
    if len({path.resolve() for path, _ in files}) < len(files):
        raise click.UsageError("--csv, --plot and --output name the same file twice.")
    if output is not None:
        _check_earlier(output)
    for path, write in files:
        check_figure(path) if write is _draw else check_writable(path)
    network = with_ns3(read_network(network_path), ns3_config, backend)
    check_sends(network, collective_name, replace(options, chunks_per_npu=1))
    topology = build_topology(network, may_forward=True)
    rows: list[CompareRow] = []
    candidates = read_candidates(candidate_paths)
    total = len(sizes) * (len(synthesizers) + len(candidates) + 1)
    # A wrong root is so for every size.
    largest = make_collective(collective_name, topology.num_npus, MAX_SIZE_BYTES, 1, root, topology.endpoints)
    compile_ahead(*searching(topology, largest), *(CHECKING if with_checks else ()), *REPLAYING)
    with progress("comparing") as on_progress:
        on_progress(0, total)
        what = collective_name, root, options, sizes, synthesizers, with_checks
        for row in compared_rows(topology, *what, network=network, backend=backend, candidates=candidates):
            rows.append(row)
            on_progress(min(len(rows), total), total)
    rows = _mark_best(rows)
    with together():
        for path, write in files:
            write(rows, path, plot_width)
    written = [path for path, _ in files]
    if as_json:
        print_json(_result(rows, written))
        return
    print_comparison(rows)
    for path in written:
        echo(f"written: {path}")


def compared_rows(
    topology: Topology,
    collective_name: str,
    root: int | None,
    options: SearchOptions,
    sizes: tuple[int, ...],
    synthesizers: tuple[str, ...],
    with_checks: bool,
    *,
    network: NetworkConfig | None = None,
    backend: Backend | None = None,
    candidates: tuple[Candidate, ...] = (),
) -> Iterator[CompareRow]:
    """A row per size and synthesizer, as they get done; where one cannot do it, the row says why.

    Where there is a network to judge on, each size also has a row of the fastest of ASTRA-sim's own algorithms.

    Parameters
    ----------
    topology, collective_name, root
        What to synthesize for.
    options
        What is asked of each search; `synthesizers` take the place of its synthesizer.
    sizes, synthesizers
        Rows and columns of the comparison.
    with_checks
        Whether to verify and replay each schedule.
    network
        The network as its file has it, to judge schedules on; None to leave that out.
    backend
        The backend to make schedules for; None for the one on which stock ASTRA-sim comes closest to the prediction.
    candidates
        Programs of files, which get rows like synthesizers.
    """
    from astra_tacos.bounds.certificate import certify
    from astra_tacos.judge.judgement import judge_schedule, with_other_choices
    from astra_tacos.judge.judges import backend_in_use, backend_that_runs, timed_for
    from astra_tacos.judge.robust import robust_order
    from astra_tacos.solve.schedule_check import check_schedule

    for size in sizes:
        least: int | None = None
        bounds: list[int] = []
        makers: tuple[str | Candidate, ...] = (*synthesizers, *candidates)
        for maker in makers:
            name = maker if isinstance(maker, str) else maker.name
            row = CompareRow(topology.name, topology.describe_shape(), topology.num_endpoints, collective_name, root, size, name)
            begin = time.perf_counter()
            try:
                what = asked_collective(collective_name, topology.num_npus, size, root, options, topology.endpoints)
                own = maker if isinstance(maker, str) else AUTO
                asked, models, _ = timed_for(replace(options, synthesizer=own), topology, backend)
                if isinstance(maker, str):
                    found, order = _found(topology, what, asked, network, backend)
                    schedule, searched, remark = found.schedule, found.describe(), ""
                else:
                    schedule = maker.schedule(topology, what, models, options.reduce_bandwidth_gbps).schedule
                    searched, remark, order = {}, maker.note(schedule.collective), None
            except (ConfigError, SynthesisError) as error:
                yield replace(row, refusal=str(error))
                continue
            seconds = time.perf_counter() - begin
            if with_checks:
                check_schedule(schedule)
            figures = certify(schedule) | searched
            figures |= {"time_ns": figures["predicted_ns"], "made_by": figures["synthesizer"]}
            figures |= {"seconds": seconds, "verified": with_checks, "synthesizer": name}
            if network is not None:
                if backend is None:
                    order = robust_order(schedule, network)[0]
                in_use = backend_that_runs(schedule, backend_in_use(network, models, backend), backend)
                judged = judge_schedule(schedule, network, in_use, order, beside=True)
                figures |= _on_packets(judged, schedule)
                if least is None or figures["time_ns"] < least:
                    least = figures["time_ns"]
                    judged = with_other_choices(judged, schedule, network, asked)
                figures |= {**judged.to_json(), "judge_notes": "; ".join(filter(None, (*judged.notes, remark)))}
            row = CompareRow(**{key: figures[key] for key in CompareRow.__dataclass_fields__ if key in figures})
            bounds.append(figures["bound_ns"])
            yield row
        if network is not None:
            try:
                what = asked_collective(collective_name, topology.num_npus, size, root, options, topology.endpoints)
            except ConfigError as error:
                about = topology.name, topology.describe_shape(), topology.num_endpoints, collective_name, root, size
                yield CompareRow(*about, NATIVE, refusal=str(error))
                continue
            yield from _native_rows(topology, network, what, options, backend, min(bounds, default=None))


def _found(
    topology: Topology, what: Collective, options: SearchOptions, network: NetworkConfig | None, backend: Backend | None
) -> tuple[SearchResult, LinkOrder | None]:
    """What a search finds, and the order of sends in its traces, None for that of the link model."""
    from astra_tacos.judge.packet_search import search_and_replay
    from astra_tacos.synthesizer.search.search import search

    if network is None:
        return search(topology, what, options), None
    return search_and_replay(backend, network, topology, what, options)


def _on_packets(judged: Judgement, schedule: Schedule) -> dict[str, Any]:
    """What takes the place of a schedule's analytical figures if it is made for the packet level: its time there.

    Messages that follow one another hide latencies there, so the bound is that of links that are held while they serialise.
    """
    from astra_tacos.bounds import lower_bound
    from astra_tacos.bounds.certificate import efficiency_of
    from astra_tacos.schedule.timing import timing_of_sizes

    if judged.backend.is_analytical:
        return {}
    time_ns = judged.own_time_ns or judged.packet_predicted_ns
    if time_ns is None:
        return {}
    topology, collective = schedule.topology, schedule.collective
    sizes, rate = collective.class_size_bytes, schedule.timing.reduce_bandwidth_gbps
    bound = lower_bound(topology, collective, timing_of_sizes(topology, sizes, "pipelined", rate, may_be_instant=True))
    bandwidth = collective.buffer_bytes / time_ns
    return {
        "time_ns": time_ns,
        "possible_ns": time_ns,
        "bound_ns": bound.time_ns,
        "bound": bound.name,
        "chunked_bound_ns": None,
        "efficiency": efficiency_of(time_ns, bound.time_ns),
        "optimal": False,
        "algorithm_bandwidth_gbps": bandwidth,
        "bus_bandwidth_gbps": bandwidth * collective.bus_factor,
    }


def _native_rows(
    topology: Topology,
    network: NetworkConfig,
    what: Collective,
    options: SearchOptions,
    backend: Backend | None,
    bound_ns: int | None,
) -> Iterator[CompareRow]:
    """The fastest of ASTRA-sim's own algorithms on the backend in use, where physically possible, then where not.

    The time of the first is what it takes where messages queue and no delay is truncated, if ASTRA-sim prints less.

    Parameters
    ----------
    topology, network
        The network, built and as its file has it.
    what
        The collective.
    options, backend
        What is asked of searches.
    bound_ns
        The least time of any algorithm, None if no schedule told it.
    """
    from astra_tacos.bounds.certificate import efficiency_of
    from astra_tacos.judge.judges import backend_in_use, judges_of_run, timed_for
    from astra_tacos.judge.native import native_time_ns, native_times
    from astra_tacos.judge.packet_level import MOST_PACKETS_BESIDE
    from astra_tacos.run.backend import PACKET, backend_of_model

    models = timed_for(options, topology, backend)[1]
    chosen = backend_in_use(network, models, backend) or backend_of_model(models[0])
    begin = time.perf_counter()
    natives = native_times(network, what, chosen, options.reduce_bandwidth_gbps)
    seconds = time.perf_counter() - begin
    about = topology.name, topology.describe_shape(), topology.num_endpoints, what.name, what.root, what.size_bytes
    if natives.fastest_possible is None:
        yield CompareRow(*about, NATIVE, refusal=natives.refusal or "none is physically possible")
    both = ((NATIVE, natives.fastest_possible), (IMPOSSIBLE_NATIVE, natives.fastest))
    for name, native in both:
        if native is None or (name == IMPOSSIBLE_NATIVE and not native.impossible):
            continue
        times: dict[str, Any] = {}
        models_asked = {judge.figure: judge.backend for judge in judges_of_run(network, chosen)}
        if network.ns3.num_packets(2.0 * what.buffer_bytes * topology.num_npus) <= MOST_PACKETS_BESIDE:
            models_asked[PACKET.figure] = PACKET
        for figure, model in models_asked.items():
            try:
                times[figure] = native_time_ns(network, what, native.system, model, options.reduce_bandwidth_gbps)
            except (ConfigError, ReplayError):
                times[figure] = None
        time_ns = native.time_ns if name == IMPOSSIBLE_NATIVE else native.possible_ns or native.time_ns
        bandwidth = what.buffer_bytes / time_ns
        is_reached = bound_ns is not None and name == NATIVE
        yield CompareRow(
            *about,
            name,
            made_by=str(native.system),
            reduce_bandwidth_gbps=options.reduce_bandwidth_gbps,
            time_ns=time_ns,
            bound_ns=bound_ns,
            efficiency=efficiency_of(time_ns, bound_ns or 0) if is_reached else None,
            algorithm_bandwidth_gbps=bandwidth,
            bus_bandwidth_gbps=bandwidth * what.bus_factor,
            backend=chosen.name,
            **times,
            judge_notes=native.describe() if name == IMPOSSIBLE_NATIVE else str(native.system),
            seconds=seconds,
        )


def _mark_best(rows: list[CompareRow]) -> list[CompareRow]:
    best: dict[int, int] = {}
    for row in rows:
        if row.time_ns is not None and row.synthesizer != IMPOSSIBLE_NATIVE:
            best[row.size_bytes] = min(row.time_ns, best.get(row.size_bytes, row.time_ns))
    return [
        row
        if row.time_ns is None
        else replace(row, is_best=row.time_ns == best.get(row.size_bytes) and row.synthesizer != IMPOSSIBLE_NATIVE)
        for row in rows
    ]
