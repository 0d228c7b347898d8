"""A phase of a native collective: the actions of the members of one line of NPUs on one chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import BYTES_PER_GB, MAX_SIZE_BYTES, NS_PER_S

PATTERNS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
NUM_POOLS = 4
"""Pools of tokens (`LocalKind`) that an algorithm may use in a phase."""
MAX_NODES = 1 << 26
"""Most nodes of a program. A node takes about 60 bytes, and several times that while it is built and replayed."""


@dataclass(frozen=True, slots=True)
class PhaseRequest:
    """The parameters of a phase, from which an algorithm makes it.

    Parameters
    ----------
    name
        Name of the algorithm in the system JSON, for error messages.
    pattern
        One of `PATTERNS`.
    num_members
        Number of NPUs of the line, 2 or more; members are 0 to num_members - 1.
    size_bytes
        Bytes that a member has at first: its shard (All-Gather) or the whole buffer.
    window
        For `direct`: most messages that a member has in flight; None for no limit.
    backwards
        Whether messages go to lower members (`RingTopology::Direction::Anticlockwise`).
    sub_group
        Whether the line is a communicator group of some of the NPUs (`RingTopology::Dimension::Local`).
    other_tree
        For `doubleBinaryTree`: whether to take the tree whose root is member 0.
    endpoint_ns
        Delay before a message is sent, and again after one is received.
    local_mem_bw_gbps
        Memory bandwidth for reductions in decimal GB/s; at 0, reductions take no time.
    """

    name: str
    pattern: str
    num_members: int
    size_bytes: int
    window: int | None = None
    backwards: bool = False
    sub_group: bool = False
    other_tree: bool = False
    endpoint_ns: int = 10
    local_mem_bw_gbps: float = 0.0

    @property
    def title(self) -> str:
        """Title for error messages, like `ring all-reduce over 8 NPUs`."""
        return f"{self.name} {self.pattern} over {self.num_members} NPUs"

    @property
    def share_bytes(self) -> int:
        """Size of the message to each other member: the whole shard (All-Gather), else 1 / num_members of the buffer."""
        return self.size_bytes if self.pattern == "all-gather" else self.size_bytes // self.num_members

    @property
    def final_bytes(self) -> int:
        """Bytes that a member has at the end of the phase."""
        if self.pattern == "all-gather":
            return self.size_bytes * self.num_members
        return self.size_bytes // self.num_members if self.pattern == "reduce-scatter" else self.size_bytes

    def reduction_ns(self, size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64, time to reduce messages of these sizes: two reads and a write, each truncated to ns (`PacketBundle.cc`)."""
        if self.local_mem_bw_gbps == 0:
            # ASTRA-sim casts an infinity to uint64, which GCC's code for x86-64 turns into 0.
            return np.zeros(len(size_bytes), np.int64)
        pass_ns = size_bytes / (self.local_mem_bw_gbps * BYTES_PER_GB) * float(NS_PER_S)
        return 3 * pass_ns.astype(np.int64)

    def check(self, num_nodes: int, message_bytes: NDArray[np.int64]) -> None:
        """Check the number of nodes of the phase, and the sizes of its messages.

        Raises
        ------
        ConfigError
            If the phase has more than `MAX_NODES` nodes, or a message that ASTRA-sim cannot send.
        """
        if num_nodes > MAX_NODES:
            raise ConfigError(f"{self.title}: {num_nodes:,} nodes, expected at most {MAX_NODES:,}")
        if message_bytes.min() < 1:
            raise ConfigError(
                f"{self.title}: {self.size_bytes} bytes make a message of 0 bytes, where ASTRA-sim stops; expected more"
            )
        if message_bytes.max() > MAX_SIZE_BYTES:
            raise ConfigError(f"{self.title}: a message of {message_bytes.max()} bytes, expected at most {MAX_SIZE_BYTES}")


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """The m rows that several members of a line have in common; only their peers differ.

    Parameters
    ----------
    member
        int64[k], the members, ascending.
    kind, delay_ns, size_bytes
        uint8[m], int64[m] and int64[m], as in `CollectiveProgram`.
    pool
        int64[m], pool of a `LocalKind`, 0 to `NUM_POOLS` - 1; `ABSENT` for other nodes.
    peer
        int64[k, m], the member at the other end of each message; `ABSENT` for other nodes.
    dep_first, dep
        int64[m + 1] and int64[...], rows that each row waits for (CSR); rows that wait for none start the phase.
    last
        The row whose completion ends the phase.
    """

    member: NDArray[np.int64]
    kind: NDArray[np.uint8]
    delay_ns: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    pool: NDArray[np.int64]
    peer: NDArray[np.int64]
    dep_first: NDArray[np.int64]
    dep: NDArray[np.int64]
    last: int

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.kind)


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """The roles of all members of a line, and the bytes that each member has at the end."""

    roles: tuple[Role, ...]
    final_bytes: int
