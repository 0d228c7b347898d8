"""Loads of links for a network model without links: the bytes of every message, summed over the links of its route.

`NETWORK_MODELS` has the network model of each backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer import _run_table_kernels as kernels
from astra_tacos.replayer.by_class import TranslatedLinks
from astra_tacos.replayer.casting import Casts
from astra_tacos.replayer.compilation import Compiled, template_sends
from astra_tacos.replayer.packet_network import PacketNetwork
from astra_tacos.replayer.routes import CongestionAware, CongestionUnaware, NetworkModel
from astra_tacos.run.backend import CONGESTION_AWARE, CONGESTION_UNAWARE, PACKET, Backend
from astra_tacos.run.lattice import Lattice
from astra_tacos.run.outcome import LinkLoads
from astra_tacos.support.arrays import Ints

NETWORK_MODELS: Mapping[Backend, Callable[[NetworkConfig], NetworkModel]] = {
    CONGESTION_AWARE: CongestionAware,
    CONGESTION_UNAWARE: CongestionUnaware,
    PACKET: PacketNetwork,
}


def link_loads(
    compiled: Compiled, casts: Casts, state: kernels.Progress, network: NetworkConfig, lattice: Lattice | None = None
) -> LinkLoads:
    """Loads of all links after a replay under a model without links.

    Messages take the routes of the congestion-aware model: they cross the dimensions in order, lowest first. Failed links count
    as working, as in the model without links.
    """
    src, dst, sent = compiled.pair_src, compiled.pair_dst, _pair_bytes(compiled, casts, state)
    used = np.flatnonzero(sent)
    model = CongestionAware(replace(network, failed_links=()))
    some = model if lattice is None else TranslatedLinks(network, lattice)
    routes = some.routes(src[used], dst[used])
    hops = np.diff(np.append(routes.first_hop, len(routes.link))) - 1  # each route ends with a -1
    carried = np.zeros(len(some.link_src), np.int64)
    np.add.at(carried, routes.link[routes.link >= 0], np.repeat(sent[used], hops))
    carried = some.of_whole(model, carried) if isinstance(some, TranslatedLinks) else carried
    loads = LinkLoads(
        src=model.link_src,
        dst=model.link_dst,
        dimension=model.link_dimension,
        size_bytes=carried,
        busy_ns=(carried / model.link_bytes_per_ns).astype(np.int64),
    )
    loads.size_bytes.flags.writeable = loads.busy_ns.flags.writeable = False
    return loads


def _pair_bytes(compiled: Compiled, casts: Casts, state: kernels.Progress) -> Ints:
    """int64[num_pairs], bytes that went between each pair of `compiled`: in messages of the workload and in collectives."""
    code = compiled.code
    num_rows = len(code.slot)
    sent = np.zeros(len(compiled.pair_src), np.int64)
    sends = np.flatnonzero((code.nodes["action"][:num_rows] == kernels.SEND) & (state.issue_ns[:num_rows] >= 0))
    np.add.at(sent, code.address["pair"][sends], code.nodes["amount"][sends])
    ran = np.flatnonzero(state.ran >= 0)
    cast = state.ran[ran].astype(np.int64)
    is_native = np.array([program.native for program in casts.programs], np.bool_)[casts.cast_program[cast]]
    template = np.where(is_native, code.native_template[ran], code.cast_template[cast] + code.position[ran])
    played, times = np.unique(np.stack((cast, template)), axis=1, return_counts=True)
    for which, position, count in zip(*played.tolist(), times.tolist(), strict=True):
        rows = template_sends(code, position)
        np.add.at(sent, code.address["pair"][rows + code.cast_shift[which]], code.nodes["amount"][rows] * count)
    return sent
