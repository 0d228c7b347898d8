"""Replay of the traces of one custom collective: a run in which every rank has one collective node."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.casting import cast_collectives
from astra_tacos.replayer.compilation import compile_run
from astra_tacos.replayer.network_models import NETWORK_MODELS
from astra_tacos.replayer.run_replay import advance, servers, start
from astra_tacos.replayer.single_collective import single_collective_run
from astra_tacos.replayer.stall import explain_stall
from astra_tacos.replayer.workload_actions import workload_actions
from astra_tacos.run.backend import Backend, choose_backend
from astra_tacos.run.system import SystemConfig
from astra_tacos.run.trace.schema import CommType
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.errors import ConfigError, ReplayError


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
    """

    backend: Backend
    finish_ns: NDArray[np.int64]
    sent_bytes: NDArray[np.int64]
    node_issue_ns: NDArray[np.int64]
    node_finish_ns: NDArray[np.int64]
    link_src: NDArray[np.int32]
    link_dst: NDArray[np.int32]
    link_bytes: NDArray[np.int64]
    link_busy_ns: NDArray[np.int64]

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
        The network model, or its name; None stands for the network's default (`run.backend`).

    Raises
    ------
    ConfigError
        If a node is of another kind or incomplete, the ranks are not the network's NPUs, the backend cannot model the network,
        or a send ends or frees its link at time 0, where ASTRA-sim stops.
    ReplayError
        If nodes wait for ever; the message names the chain of waiting nodes.
    """
    chosen = choose_backend(backend, network)
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
