"""Runs of one collective or one message, in which every rank has one node; and the replay of custom traces by such a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.casting import cast_collectives
from astra_tacos.replayer.compilation import compile_run
from astra_tacos.replayer.link_loads import NETWORK_MODELS
from astra_tacos.replayer.run_replay import advance, servers, start
from astra_tacos.replayer.stall import explain_stall
from astra_tacos.replayer.workload_actions import workload_actions
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.groups import CommunicatorGroups
from astra_tacos.run.run import NATIVE, Run
from astra_tacos.run.system import SystemConfig
from astra_tacos.run.trace.schema import CommType, NodeType
from astra_tacos.run.trace.trace import ABSENT, Trace, WorkloadColumns
from astra_tacos.support.arrays import Ints, Ints32
from astra_tacos.support.errors import ConfigError, ReplayError


def single_collective_run(
    network: NetworkConfig,
    system: SystemConfig,
    pattern: int,
    size_bytes: int,
    custom: Trace | None = None,
    groups: Sequence[tuple[int, ...]] | None = None,
) -> Run:
    """The run of one collective of all NPUs of a network, or of several groups of them at once.

    Parameters
    ----------
    pattern, size_bytes
        The collective: its `comm_type` and `comm_size`.
    custom
        Its custom traces; None for the native implementation that `system` names.
    groups
        Ranks of each group, no rank in two of them; other ranks do nothing. None for one group of all.
    """
    num_ranks, prefix = network.num_npus, system.source
    groups = [tuple(range(num_ranks))] if groups is None else groups
    is_everyone = len(groups) == 1 and list(groups[0]) == list(range(num_ranks))
    group = np.full(num_ranks, -1, np.int32)
    takes_part = np.zeros(num_ranks, np.bool_)
    for number, ranks in enumerate(groups):
        takes_part[list(ranks)] = True
        if not is_everyone:
            group[list(ranks)] = number
    absent = np.full(num_ranks, ABSENT, np.int64)
    kind = np.where(takes_part, NodeType.COMM_COLL, NodeType.COMP).astype(np.uint8)
    named = {} if is_everyone else {number + 1: ranks for number, ranks in enumerate(groups)}
    implementation = np.where(takes_part & (custom is not None), 0, NATIVE)
    workload = _one_node_a_rank(
        prefix, kind, size_bytes, absent, np.full(num_ranks, pattern, np.int64), group, tuple(map(str, named))
    )
    return _run(network, system, workload, CommunicatorGroups(prefix, named), custom, implementation)


def single_message_run(network: NetworkConfig, system: SystemConfig, source: int, target: int, size_bytes: int) -> Run:
    """The run of one message."""
    num_ranks = network.num_npus
    kind, peer = np.full(num_ranks, NodeType.COMP, np.uint8), np.full(num_ranks, ABSENT, np.int64)
    kind[[source, target]], peer[[source, target]] = (NodeType.COMM_SEND, NodeType.COMM_RECV), (target, source)
    absent, everyone = np.full(num_ranks, ABSENT, np.int64), np.full(num_ranks, -1, np.int32)
    workload = _one_node_a_rank(system.source, kind, size_bytes, peer, absent, everyone, ())
    return _run(network, system, workload, CommunicatorGroups(system.source, {}), None, np.full(num_ranks, NATIVE))


def _run(
    network: NetworkConfig,
    system: SystemConfig,
    workload: Trace,
    groups: CommunicatorGroups,
    custom: Trace | None,
    implementation: Ints,
) -> Run:
    """A run without memory and files, in which some nodes may use one custom trace."""
    return Run(
        workload=workload,
        system=system,
        network=network,
        groups=groups,
        remote_memory=None,
        prefixes=() if custom is None else (custom.prefix,),
        collectives=() if custom is None else (custom,),
        implementation=implementation.astype(np.int32),
        directory=Path(),
    )


def _one_node_a_rank(
    prefix: str,
    kind: NDArray[np.uint8],
    size_bytes: int,
    peer: Ints,
    comm_type: Ints,
    group: Ints32,
    group_names: tuple[str, ...],
) -> Trace:
    """A workload in which every rank has one node; compute nodes do nothing."""
    num_ranks = len(kind)
    absent = np.full(num_ranks, ABSENT, np.int64)
    return Trace(
        prefix=prefix,
        rank_first=np.arange(num_ranks + 1),
        node_id=np.zeros(num_ranks, np.uint64),
        kind=kind,
        duration_us=np.zeros(num_ranks, np.int64),
        size_bytes=np.full(num_ranks, size_bytes, np.int64),
        peer=peer,
        tag=np.where(peer == ABSENT, ABSENT, 0),
        dep_first=np.zeros(num_ranks + 1, np.int64),
        dep=np.empty(0, np.int64),
        chunks=None,
        workload=WorkloadColumns(
            comm_type=comm_type,
            num_ops=absent,
            tensor_size=absent,
            comm_priority=absent,
            is_cpu_op=kind == NodeType.COMP,
            own=absent,
            group=group,
            group_names=group_names,
            involved_dims=absent,
            involved_count=np.zeros(num_ranks, np.int64),
            root=absent,
            carried_pattern=absent,
            own_group=absent,
            num_data=np.zeros(num_ranks, np.int64),
            wrong_type=np.zeros(num_ranks, np.uint32),
            no_value=np.zeros(num_ranks, np.uint32),
            byte_offset=np.zeros(num_ranks, np.int64),
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class TraceReplay:
    """The times and traffic of a replay of traces. Arrays are read-only.

    Parameters
    ----------
    backend
        The network model.
    finish_ns
        int64[num_ranks], time at which the last node of a rank completes: the T that ASTRA-sim prints as `finished, T cycles`
        for a workload of this one collective.
    sent_bytes
        int64[num_ranks], bytes that each rank sent.
    node_issue_ns, node_finish_ns
        int64[num_nodes], time at which each row of the trace is issued and completes. A send is issued when it joins the queue
        of its first link.
    link_src, link_dst
        int32[num_links], devices at the ends of each directed link, switches numbered after the NPUs, as in `Topology`; empty
        where the backend models no links.
    link_bytes, link_busy_ns
        int64[num_links], bytes that each link carried, and time for which it was held: the sum of int(size / bandwidth).

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, replay_trace, schedule_trace, synthesize
    >>> network = NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),))
    >>> schedule = synthesize(build_topology(network), all_gather(4, 1 << 20), synthesizer="ring")
    >>> replayed = replay_trace(schedule_trace(schedule, "ring"), network)
    >>> int(replayed.sent_bytes.sum()) == 4 * 3 << 20
    True
    """

    backend: Backend
    finish_ns: Ints
    sent_bytes: Ints
    node_issue_ns: Ints
    node_finish_ns: Ints
    link_src: Ints32
    link_dst: Ints32
    link_bytes: Ints
    link_busy_ns: Ints

    @property
    def collective_time_ns(self) -> int:
        """Time at which the last rank finishes, in ns."""
        return int(self.finish_ns.max())


def replay_trace(trace: Trace, network: NetworkConfig, backend: Backend | str | None = None) -> TraceReplay:
    """Replay the traces of a custom collective over all NPUs of a network, with the semantics of `replay_run`.

    Parameters
    ----------
    trace
        The collective: nodes of kinds COMM_SEND, COMM_RECV and COMP, whose peers are NPUs.
    network
        The network to replay on.
    backend
        The network model, or its name; None stands for `congestion-aware`.

    Raises
    ------
    ConfigError
        If a node is of another kind or incomplete, the ranks are not the network's NPUs, the backend cannot model the network,
        or a send ends or frees its link at time 0, where ASTRA-sim stops.
    ReplayError
        If nodes wait for ever; the message names the chain of waiting nodes.

    Examples
    --------
    >>> from astra_tacos import Dimension, NetworkConfig, all_gather, build_topology, read_trace, replay_trace
    >>> from astra_tacos import export_chakra, synthesize
    >>> network = NetworkConfig("ring", (Dimension("Ring", 4, 50.0, 500.0),))
    >>> schedule = synthesize(build_topology(network), all_gather(4, 1 << 20), synthesizer="ring")
    >>> paths = export_chakra(schedule, "ring")
    >>> replay_trace(read_trace("ring"), network).finish_ns.shape
    (4,)
    """
    chosen = choose_backend(backend)
    if trace.num_ranks != network.num_npus:
        raise ConfigError(f"{trace.prefix}: traces of {trace.num_ranks} ranks, but {network.source} has {network.num_npus} NPUs")
    system = SystemConfig(source=trace.prefix, preferred_dataset_splits=1)
    run = single_collective_run(network, system, CommType.ALL_REDUCE, 1, trace)
    casts, model = cast_collectives(run), NETWORK_MODELS[chosen](network)
    server, _ = servers(None, trace.num_ranks)
    compiled = compile_run(run.workload, workload_actions(run), casts, model, starts_at_once=False, server=server)
    state = start(compiled, casts, num_servers=0, record=False, timed=True)
    state = advance(compiled, state, model.engine(compiled), trace.prefix, network.name, None)
    if state.rank_finish_ns.min() < 0:
        raise ReplayError(f"{trace.prefix}: deadlock: {explain_stall(run, casts, compiled, state, of_collective=True)}")
    replay = TraceReplay(
        backend=chosen,
        finish_ns=state.rank_finish_ns,
        sent_bytes=state.rank_sent_bytes,
        node_issue_ns=state.issue_ns[trace.num_ranks :],
        node_finish_ns=state.finish_ns[trace.num_ranks :],
        link_src=model.link_src,
        link_dst=model.link_dst,
        link_bytes=compiled.by_link(state.link_bytes, len(model.link_src)),
        link_busy_ns=compiled.by_link(state.link_busy_ns, len(model.link_src)),
    )
    for name in (field.name for field in fields(replay) if field.name != "backend"):
        getattr(replay, name).flags.writeable = False
    return replay
