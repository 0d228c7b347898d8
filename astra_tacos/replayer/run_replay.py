"""Replay of whole runs on ASTRA-sim's analytical networks, to the nanosecond."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer import _run_table_kernels as kernels
from astra_tacos.replayer.by_class import TranslatedLinks, of_all_ranks
from astra_tacos.replayer.casting import Casts, cast_collectives
from astra_tacos.replayer.compilation import Compiled, compile_run, template_sends
from astra_tacos.replayer.link_loads import NETWORK_MODELS, link_loads
from astra_tacos.replayer.routes import CongestionAware, Engine, NetworkModel
from astra_tacos.replayer.stall import explain_stall
from astra_tacos.replayer.workload_actions import workload_actions
from astra_tacos.run.backend import BACKENDS, Backend, choose_backend
from astra_tacos.run.compact_run import MOST_RANKS, check_collectives, compact, why_not_compact
from astra_tacos.run.outcome import RunOutcome, Transmissions
from astra_tacos.run.run import Run
from astra_tacos.run.system import RemoteMemory
from astra_tacos.run.trace.schema import NodeType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.errors import AstraTacosError, ConfigError, ReplayError
from astra_tacos.support.grouping import distinct, group_by

_Integer = TypeVar("_Integer", np.int32, np.int64)
_EVENTS_A_TURN = 2_000_000
_MANY_RANKS = 256
"""Ranks from which on a run is looked at for classes."""
_ELAPSES = np.isin(np.arange(256), (kernels.COMPUTE, kernels.WAIT, kernels.MEMORY))
"""Actions that wait for time to pass."""


def replay_run(
    run: Run,
    backend: Backend | str | None = None,
    *,
    record_transmissions: bool = False,
    route_loads: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> RunOutcome:
    """Replay a run from the first node to the last, and return times, bytes and link loads.

    Semantics and order of events are those of `astra-sim` (`workload/Workload.cc`, `workload/HardwareResource.cc`,
    `system/Sys.cc`, `system/CommunicatorGroup.cc`, `system/astraccl/custom_collectives/CustomAlgorithm.cc`) on
    `astra-network-analytical`. Native collectives are replayed as graphs of messages (`replayer.native`), and make the result
    `approximate`.

    Of a large run, ranks that do the same at translated places of the network are replayed once, where that is exact. Of a run
    with classes the representatives are replayed: each does what all ranks do that it stands for, at the same times. Then the
    outcome has an entry a representative, and a row a node of theirs, and a link stands for all that translations move it to.

    Parameters
    ----------
    run
        What to replay.
    backend
        The network model, or its name; None stands for `congestion-aware`.
    record_transmissions
        Whether to keep every transmission over a link (`RunOutcome.transmissions`).
    route_loads
        Whether to sum the bytes of messages over their routes where the backend models no links (`RunOutcome.loads`).
    progress
        Called from time to time with the number of ranks that have finished and the number of all ranks.

    Raises
    ------
    ConfigError
        If a node or file would make ASTRA-sim stop, the backend cannot model the network, or the run has classes of which
        ranks do not do the same, or of which transmissions are asked for.
    ReplayError
        If nodes wait for ever; the message names the chain of waiting nodes. Of a run with classes also where things happen at
        one instant on a rank or link in an order that may differ between ranks that one stands for.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from astra_tacos import RunInputs, read_run, replay_run
    >>> inputs = RunInputs.in_folder(Path("configs/workload/transformer_16"), "w")
    >>> outcome = replay_run(read_run(replace(inputs, network=Path("configs/network/torus_4x4.yml"))))
    >>> bool(outcome.end_ns == outcome.finish_ns.max())
    True
    """
    chosen = choose_backend(backend)
    if run.classes is not None:
        if why := why_not_compact(run):
            raise ConfigError(f"{run.workload.prefix}: {why}")
        check_collectives(run)
        if record_transmissions:
            raise ConfigError(f"{run.workload.prefix}: transmissions of a run with classes, expected the ordinary run (`expand`)")
    elif run.workload.num_ranks >= _MANY_RANKS and chosen.is_analytical and not record_transmissions:
        try:
            return _of_classes(run, chosen, route_loads, progress)
        except AstraTacosError:
            pass  # there are no classes, or replaying every rank says better what is wrong
    return _replay(run, chosen, record_transmissions, route_loads, progress)


def _of_classes(run: Run, chosen: Backend, route_loads: bool, progress: Callable[[int, int], None] | None) -> RunOutcome:
    """The outcome of a run whose classes are replayed."""
    return _replay(compact(run), chosen, False, route_loads, progress, run.workload)


def try_classes(run: Run, backend: Backend | str | None = None) -> RunOutcome | None:
    """The replay of a run with classes; None where ranks of a class may differ, so that every rank has to be replayed.

    Raises
    ------
    ConfigError, ReplayError
        As `replay_run`, if there are too many ranks for that (`MOST_RANKS`).
    """
    if run.classes is None:
        return None
    are_few = run.classes.num_ranks <= MOST_RANKS
    if why := why_not_compact(run):
        if are_few:
            return None
        size = f"found {run.classes.num_ranks:,} ranks, expected at most {MOST_RANKS:,}"
        raise ConfigError(f"{run.workload.prefix}: {why}: {size}")
    try:
        return replay_run(run, backend)
    except ReplayError:
        if are_few:
            return None
        raise


def _replay(
    run: Run,
    chosen: Backend,
    record_transmissions: bool,
    route_loads: bool,
    progress: Callable[[int, int], None] | None,
    full_trace: Trace | None = None,
) -> RunOutcome:
    """The outcome of a run; with classes, that of representatives, or of all ranks of the traces that are given then."""
    workload, lattice = run.workload, run.classes
    if lattice is None and workload.num_ranks != run.network.num_npus:
        raise ConfigError(
            f"{workload.prefix}: traces of {workload.num_ranks} ranks, but {run.network.source} has {run.network.num_npus} NPUs"
        )
    actions, casts = workload_actions(run), cast_collectives(run)
    if lattice is not None and not chosen.is_analytical:
        raise ConfigError(f"{workload.prefix}: a compact run on the {chosen} backend, expected {' or '.join(BACKENDS)}")
    model: NetworkModel
    if lattice is not None and chosen.models_congestion:
        model = TranslatedLinks(run.network, lattice)
    else:
        model = NETWORK_MODELS[chosen](run.network)
    if record_transmissions and model.hands_over:
        raise ConfigError(
            f"transmissions cannot be recorded on the {chosen} backend: packets of many messages take turns on a link"
        )
    server, num_servers = servers(run.remote_memory, workload.num_ranks)
    compiled = compile_run(workload, actions, casts, model, run.system.active_chunks_per_dimension > 1, server, lattice)
    state = start(compiled, casts, num_servers, record_transmissions)
    state = advance(compiled, state, model.engine(compiled), workload.prefix, run.network.name, progress)
    if state.rank_finish_ns.min() < 0:
        stuck = int(compiled.owners[np.argmin(state.rank_finish_ns)])
        why = f"rank {stuck} never ends" if lattice else explain_stall(run, casts, compiled, state)
        raise ReplayError(f"{workload.prefix}: deadlock: {why}")
    outcome = RunOutcome(
        backend=chosen,
        approximate=_approximations(casts, state),
        ranks=compiled.owners,
        finish_ns=state.rank_finish_ns,
        compute_ns=state.rank_compute_ns,
        sent_bytes=state.rank_sent_bytes,
        node_issue_ns=state.issue_ns[: workload.num_nodes],
        node_finish_ns=state.finish_ns[: workload.num_nodes],
        node_cause=state.cause[: workload.num_nodes],
        node_origin=state.entered[: workload.num_nodes],
        collective=_programs_run(casts, state),
        collective_names=tuple(program.source for program in casts.programs),
        replaced=_replaced(casts, state),
        link_src=model.link_src,
        link_dst=model.link_dst,
        link_bytes=compiled.by_link(state.link_bytes, len(model.link_src)),
        link_busy_ns=compiled.by_link(state.link_busy_ns, len(model.link_src)),
        num_messages=_num_messages(workload, casts, state) * (1 if lattice is None else lattice.num_ranks // workload.num_ranks),
        transmissions=_transmissions(compiled, state) if record_transmissions else None,
        loads=link_loads(compiled, casts, state, run.network, lattice) if route_loads and not chosen.models_congestion else None,
    )
    if full_trace is not None and lattice is not None:
        outcome = of_all_ranks(outcome, workload, full_trace, lattice)
    if full_trace is not None and isinstance(model, TranslatedLinks):
        outcome = model.of_all_links(outcome, CongestionAware(run.network))
    for name in (field.name for field in fields(outcome)):
        if isinstance(array := getattr(outcome, name), np.ndarray):
            array.flags.writeable = False
    return outcome


@dataclass(frozen=True, slots=True)
class Attempt:
    """A replay that may not go to its end: its outcome, or None and the reason."""

    outcome: RunOutcome | None
    reason: str = ""

    @property
    def end_ns(self) -> int | None:
        """End of the run, in ns; None if it has none."""
        return None if self.outcome is None else self.outcome.end_ns


def try_replay(run: Run, backend: Backend, *, route_loads: bool = False) -> Attempt:
    """Replay a run, see `replay_run`, whether it goes to its end or not."""
    try:
        return Attempt(replay_run(run, backend, route_loads=route_loads))
    except AstraTacosError as error:
        return Attempt(None, str(error))


def advance(
    compiled: Compiled,
    state: kernels.Progress,
    engine: Engine,
    prefix: str,
    network: str,
    progress: Callable[[int, int], None] | None,
) -> kernels.Progress:
    """Run a replay to its end, and return its last state.

    Parameters
    ----------
    progress
        As in `replay_run`.

    Raises
    ------
    ConfigError
        If a message ends or frees its link at time 0, where ASTRA-sim aborts, or the replay takes longer than 2**61 ns.
    ReplayError
        If ranks number a native collective differently, so that its messages never match.
    """
    code = compiled.code
    status = kernels.PAUSED
    while status in (kernels.PAUSED, kernels.FULL):
        status = engine(code, state, _EVENTS_A_TURN)
        if status == kernels.FULL:
            state = _with_room(state)
        if progress is not None:
            progress(int(state.scalar[kernels.RANKS_DONE]), len(state.ready))
    if status == kernels.ENDS_AT_ZERO:
        culprit = int(state.scalar[kernels.CULPRIT])
        if culprit < 0:
            raise ConfigError(
                f"{prefix}: rank {-1 - culprit} computes for 0 ns at time 0, where ASTRA-sim stops: expected 1 ns or more"
            )
        sent = state.messages[culprit]
        rank, live = int(compiled.pair_src[code.address["pair"][sent["place"]]]), int(sent["live"])
        row = live if live < len(code.slot) else live + int(state.shift[rank])
        who = f"rank {rank}, node {int(code.node_id[row])}" if live >= 0 else f"rank {rank}"
        raise ConfigError(
            f"{prefix}: {who} sends {sent['size']} bytes at time 0 in under 1 ns of {network}, where ASTRA-sim stops: "
            "expected a larger size"
        )
    if status == kernels.MISNUMBERED:
        row = int(state.scalar[kernels.CULPRIT])
        rank = int(state.lives["rank"][row])
        raise ReplayError(
            f"{prefix}: deadlock: rank {rank}, node {int(code.node_id[row])} is a native collective of all ranks, which "
            f"ASTRA-sim numbers by the streams that a rank has begun: {int(state.streams[rank])} here, "
            f"{int(state.stream_number[state.turn[rank]])} on another rank, so their messages never meet"
        )
    if status == kernels.UNORDERED:
        raise ReplayError(f"{prefix}: {_unordered(compiled, state)}")
    if status == kernels.OUT_OF_TIME:
        raise ConfigError(
            f"{prefix}: the replay on {network} goes beyond 2**61 ns, expected less: are sizes and durations in range?"
        )
    return state


def _unordered(compiled: Compiled, state: kernels.Progress) -> str:
    """What happens at one instant in an order that may differ between the ranks that one rank stands for."""
    at, now = (int(state.scalar[which]) for which in (kernels.CLASH, kernels.NOW))
    first = state.scalar[kernels.OF_KEYS : kernels.OF_ROWS]
    table = int(np.searchsorted(first, at, side="right"))
    cause = (
        "messages come to one link",
        "messages of one size and tag begin or end between two ranks",
        "nodes that take no time end",
        "steps of a native collective let go of others",
        "nodes of a collective become ready",
        "nodes become ready for one slot",
    )[table]
    if table > 1:
        per_rank = (kernels.SLOTS, compiled.code.num_pools, 1, kernels.SLOTS)[table - 2]
        cause += f" on rank {int(compiled.owners[(at - int(first[table - 1])) // per_rank])}"
    return f"at {now} ns {cause}, in an order that may differ between ranks of a class; expected one event per instant"


def start(compiled: Compiled, casts: Casts, num_servers: int, record: bool, timed: bool = False) -> kernels.Progress:
    """The state of a replay before its first event.

    Parameters
    ----------
    timed
        Whether the times of nodes of collectives are kept, besides those of the workload.
    """
    code = compiled.code
    num_rows, num_ranks = len(code.slot), len(code.block_first) - 1
    num_live, num_links = int(code.block_first[-1]), len(code.link_latency_ns)
    most = int(np.diff(code.template_first).max())
    num_messages = num_live + 2 * most + 16
    num_events = num_messages + 2 * num_live + num_links + num_servers
    num_timed = num_live if timed else num_rows
    num_batches = _most_elapsing(code) + num_servers
    table = 1 << max(4, min(2 * num_batches, 4 * num_live + 16).bit_length())
    num_records = _most_transmissions(compiled, casts) if record else 0
    keys = np.zeros(compiled.num_keys, kernels.KEY)
    keys["head"] = -1
    scalar, touches = _touches(compiled)
    return kernels.Progress(
        scalar=scalar,
        lives=_lives(code),
        # Arrays that are written before they are read stay uninitialised: pages that are never touched cost nothing.
        messages=np.empty(num_messages, kernels.MESSAGE),
        issue_ns=_nothing(np.int64, num_timed),
        finish_ns=_nothing(np.int64, num_timed),
        cause=_nothing(np.int32, num_rows),
        entered=_nothing(np.int32, num_rows),
        keys=keys,
        link_busy=np.zeros(num_links, np.bool_),
        link_head=_nothing(np.int32, num_links),
        link_tail=np.empty(num_links, np.int32),
        link_origin=np.empty(num_links, np.int32),
        link_bytes=np.zeros(num_links, np.int64),
        link_busy_ns=np.zeros(num_links, np.int64),
        events=np.empty(num_events, kernels.EVENT),
        due_head=_nothing(np.int32, 65),
        due_tail=_nothing(np.int32, 65),
        batches=np.empty(num_batches + 1, kernels.BATCH),
        batch_table=_nothing(np.int32, table),
        wait_live=np.empty(num_batches + num_ranks + 1, np.int32),
        wait_then=np.empty(num_batches + num_ranks + 1, np.int32),
        wait_atom=np.empty(num_batches + num_ranks + 1, np.int32),
        heap=np.empty(num_rows, np.int32),
        heap_size=np.zeros(num_ranks * kernels.SLOTS, np.int32),
        in_flight=np.zeros(num_ranks * kernels.SLOTS, np.int32),
        ready=np.zeros(num_ranks, np.int32),
        ongoing=np.zeros(num_ranks, np.int32),
        shift=np.zeros(num_ranks, np.int64),
        key_shift=np.zeros(num_ranks, np.int64),
        parent=_nothing(np.int32, num_ranks),
        running=np.zeros(num_ranks, np.int32),
        level=np.zeros(num_ranks, np.int64),
        is_hashed=np.zeros(num_ranks, np.bool_),
        plan_choice=_nothing(np.int32, casts.num_plans),
        streams=np.zeros(num_ranks, np.int64),
        turn=np.zeros(num_ranks, np.int32),
        stream_number=_nothing(np.int64, num_rows),
        ran=_nothing(np.int32, num_rows),
        pool_tokens=np.zeros(num_ranks * code.num_pools, np.int32),
        pool_head=_nothing(np.int32, num_ranks * code.num_pools),
        pool_tail=np.empty(num_ranks * code.num_pools, np.int32),
        server_busy=np.zeros(num_servers, np.bool_),
        server_head=_nothing(np.int32, num_servers),
        server_tail=np.empty(num_servers, np.int32),
        server_origin=np.empty(num_servers, np.int32),
        rank_finish_ns=_nothing(np.int64, num_ranks),
        rank_compute_ns=np.zeros(num_ranks, np.int64),
        rank_sent_bytes=np.zeros(num_ranks, np.int64),
        bucket=_nothing(np.int64, 3 * most + 13),
        scratch=np.empty((4, most), np.int64),
        freed=np.empty(most + 1, np.int64),
        fresh=np.empty(most + 1, np.int64),
        touches=touches,
        record_link=np.empty(num_records, np.int32),
        record_size=np.empty(num_records, np.int64),
        record_pair=np.empty(num_records, np.int32),
        record_start_ns=np.empty(num_records, np.int64),
    )


def _nothing(kind: type[_Integer], size: int) -> NDArray[_Integer]:
    return np.full(size, -1, kind)


def _lives(code: kernels.Code) -> NDArray[np.void]:
    """The live nodes before the first event."""
    num_rows, ranks = len(code.slot), np.arange(len(code.block_first) - 1)
    lives = np.empty(int(code.block_first[-1]), kernels.LIVE)
    lives["rank"][:num_rows] = np.repeat(ranks, np.diff(code.template_first[: len(ranks) + 1]))
    lives["rank"][num_rows:] = np.repeat(ranks, np.diff(code.block_first))
    lives["waits"][:num_rows] = code.num_waits[:num_rows]
    lives["state"] = kernels.UNTOUCHED
    return lives


def _most_elapsing(code: kernels.Code) -> int:
    """How many nodes may wait for time to pass at the same time: those of the workload, and of the largest collectives."""
    num_ranks = len(code.block_first) - 1
    elapsing = np.concatenate(([0], np.cumsum(_ELAPSES[code.nodes["action"][:-1]])))
    per_template = np.diff(elapsing[code.template_first])
    return int(elapsing[len(code.slot)]) + num_ranks * int(per_template[num_ranks:].max(initial=0))


def _touches(compiled: Compiled) -> tuple[Ints, NDArray[np.void]]:
    """The numbers of a state before the first event, which say where each kind of thing begins in `touches`, and `touches`."""
    code = compiled.code
    num_ranks = len(compiled.owners)
    scalar = np.zeros(kernels.NUM_SCALARS, np.int64)
    scalar[[kernels.FREE_EVENT, kernels.FREE_BATCH, kernels.FREE_WAIT, kernels.FREE_MESSAGE, kernels.OUT_HEAD]] = -1
    scalar[[kernels.LATEST_STAMP, kernels.CLASH]] = -1
    slots, pools = num_ranks * kernels.SLOTS, num_ranks * code.num_pools
    sizes = (len(code.link_latency_ns), compiled.num_keys, slots, pools, num_ranks, slots, len(code.slot), num_ranks)
    scalar[kernels.OF_KEYS : kernels.OF_BATCHES + 1] = np.cumsum(sizes[:-1])
    touches = np.empty(sum(sizes) if compiled.stands_for_many else 0, kernels.TOUCH)
    touches["stamp"] = -1
    return scalar, touches


def _with_room(state: kernels.Progress) -> kernels.Progress:
    """The state with room for twice the messages and as many more events."""
    more = len(state.messages)
    messages = np.concatenate((state.messages, np.empty(more, kernels.MESSAGE)))
    return state._replace(messages=messages, events=np.concatenate((state.events, np.empty(more, kernels.EVENT))))


def servers(memory: RemoteMemory | None, num_ranks: int) -> tuple[Ints32, int]:
    """int32[num_ranks], the memory server that each rank shares with others, -1 if none; and the number of servers.

    Source: `AnalyticalRemoteMemory.cc`, `issue`.
    """
    ranks = np.arange(num_ranks, dtype=np.int32)
    if memory is not None and memory.kind == "pool":
        return np.zeros(num_ranks, np.int32), 1
    if memory is not None and memory.kind == "per-node" and memory.npus_per_node > 0:
        server = ranks // np.int32(memory.npus_per_node)
        return server.astype(np.int32), int(server.max()) + 1
    return np.full(num_ranks, -1, np.int32), 0


def _most_transmissions(compiled: Compiled, casts: Casts) -> int:
    """An upper bound on the transmissions of a replay: a collective node counts with the largest implementation of its plan."""
    code = compiled.code
    if not len(code.hop_link):
        return 0
    ends = np.flatnonzero(code.hop_link < 0)
    hops = np.diff(np.concatenate(([-1], ends))) - 1  # of the pairs, in order
    num_rows = len(code.slot)
    is_send = code.nodes["action"][:num_rows] == kernels.SEND
    total = int(hops[code.address["pair"][:num_rows][is_send]].sum())
    known: dict[tuple[int, int], int] = {}

    def transmissions(cast: int, template: int) -> int:
        if (cast, template) not in known:
            rows = template_sends(code, template) + code.cast_shift[cast]
            known[cast, template] = int(hops[code.address["pair"][rows]].sum())
        return known[cast, template]

    largest: dict[int, int] = {}
    alone = 0
    rows = np.flatnonzero((casts.custom >= 0) | (casts.native >= 0))
    for row in rows.tolist():
        options = [0]
        if casts.custom[row] >= 0:
            cast = int(casts.custom[row])
            options.append(transmissions(cast, int(code.cast_template[cast]) + int(casts.position[row])))
        if casts.native[row] >= 0:
            options.append(transmissions(int(casts.native[row]), int(code.native_template[row])))
        plan = int(casts.plan[row])
        if plan >= 0:
            largest[plan] = max(largest.get(plan, 0), *options)
        else:
            alone += max(options)
    return total + alone + sum(largest[plan] for plan in casts.plan[rows].tolist() if plan >= 0)


def _programs_run(casts: Casts, state: kernels.Progress) -> Ints32:
    programs: Ints32 = np.append(casts.cast_program, -1)[state.ran].astype(np.int32)
    return programs


def _replaced(casts: Casts, state: kernels.Progress) -> Ints:
    named = np.where(casts.custom >= 0, casts.custom, casts.native)
    return np.flatnonzero((state.ran >= 0) & (state.ran != named))


def _num_messages(workload: Trace, casts: Casts, state: kernels.Progress) -> int:
    """Sends of the workload that ran, and those of the programs that its collective nodes ran."""
    total = int(np.count_nonzero((workload.kind == NodeType.COMM_SEND) & (state.finish_ns[: workload.num_nodes] >= 0)))
    ran = state.ran[: workload.num_nodes]
    nodes = np.flatnonzero(ran >= 0)
    first, nodes = group_by(casts.cast_program[ran[nodes]], nodes, len(casts.programs))
    for number in np.flatnonzero(np.diff(first)).tolist():
        program = casts.programs[number]
        before = np.concatenate(([0], np.cumsum(program.kind == NodeType.COMM_SEND)))
        sends = np.diff(before[program.rank_first])
        positions = casts.native_position if program.native else casts.position
        total += int(sends[positions[nodes[first[number] : first[number + 1]]]].sum())
    return total


def _approximations(casts: Casts, state: kernels.Progress) -> tuple[str, ...]:
    used = distinct(casts.cast_program[distinct(state.ran[state.ran >= 0])])
    names = sorted({casts.programs[program].source for program in used.tolist() if casts.programs[program].native})
    return (", ".join(names),) if names else ()


def _transmissions(compiled: Compiled, state: kernels.Progress) -> Transmissions:
    count = int(state.scalar[kernels.NUM_RECORDS])
    link, size = state.record_link[:count].copy(), state.record_size[:count].copy()
    start_ns = state.record_start_ns[:count].copy()
    held = (size / compiled.code.link_bytes_per_ns[link]).astype(np.int64)
    pair = state.record_pair[:count]
    src, dst = compiled.pair_src[pair].astype(np.int32), compiled.pair_dst[pair].astype(np.int32)
    columns = (compiled.used_links[link], src, dst, size, start_ns, start_ns + held)
    for column in columns:
        column.flags.writeable = False
    return Transmissions(*columns)
