"""The network model of each backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from astra_tacos.network.network_config import NetworkConfig
from astra_tacos.replayer.packet_network import PacketNetwork
from astra_tacos.replayer.routes import CongestionAware, CongestionUnaware, CutThrough, NetworkModel
from astra_tacos.run.backend import CONGESTION_AWARE, CONGESTION_UNAWARE, CUT_THROUGH, PACKET, Backend

NETWORK_MODELS: Mapping[Backend, Callable[[NetworkConfig], NetworkModel]] = {
    CONGESTION_AWARE: CongestionAware,
    CONGESTION_UNAWARE: CongestionUnaware,
    CUT_THROUGH: CutThrough,
    PACKET: PacketNetwork,
}
