"""A phase of a native collective: the actions of the members of one line of NPUs on one chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_tacos.errors import ConfigError
from astra_tacos.units import BYTES_PER_GB, MAX_SIZE_BYTES, NS_PER_S

PATTERNS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
NUM_POOLS = 4
"""Pools of tokens (`LocalKind`) that an algorithm may use in a phase."""
MAX_NODES = 1 << 26
"""Nodes of the largest program: each takes some 60 bytes, and several times that while it is built and replayed."""


@dataclass(frozen=True, slots=True)
class PhaseRequest:
    """What an algorithm is asked for.

    Parameters
    ----------
    name
        Of the algorithm as the system JSON writes it, for messages.
    pattern
        One of `PATTERNS`.
    num_members
        NPUs of the line, 2 or more; members are 0 to num_members - 1.
    size_bytes
        What a member has at first: its shard (All-Gather) or the whole buffer.
    window
        Of `direct`, messages that a member has in flight; None is all at once.
    backwards
        Messages go to lower members (`RingTopology::Direction::Anticlockwise`).
    sub_group
        The line is a communicator group of some of the NPUs (`RingTopology::Dimension::Local`).
    other_tree
        Of `doubleBinaryTree`, whether it is the turn of the tree whose root is member 0.
    endpoint_ns
        What passes before a message is sent, and after one is received.
    local_mem_bw_gbps
        Decimal GB/s at which a member reduces; 0 takes no time.
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
        """For messages: `ring all-reduce over 8 NPUs`."""
        return f"{self.name} {self.pattern} over {self.num_members} NPUs"

    @property
    def share_bytes(self) -> int:
        """Size of a message to each of the others: the shard (All-Gather), or that member's part of the buffer."""
        return self.size_bytes if self.pattern == "all-gather" else self.size_bytes // self.num_members

    @property
    def final_bytes(self) -> int:
        """What a member has in the end."""
        if self.pattern == "all-gather":
            return self.size_bytes * self.num_members
        return self.size_bytes // self.num_members if self.pattern == "reduce-scatter" else self.size_bytes

    def reduction_ns(self, size_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Time to reduce messages: two reads and a write, each truncated to whole ns (`PacketBundle.cc`)."""
        if self.local_mem_bw_gbps == 0:
            # ASTRA-sim casts an infinity to uint64, of which GCC's code for x86-64 makes 0.
            return np.zeros(len(size_bytes), np.int64)
        pass_ns = size_bytes / (self.local_mem_bw_gbps * BYTES_PER_GB) * float(NS_PER_S)
        return 3 * pass_ns.astype(np.int64)

    def check(self, num_nodes: int, message_bytes: NDArray[np.int64]) -> None:
        """Refuse what is too large to be built, or has messages that ASTRA-sim cannot send.

        Raises
        ------
        ConfigError
            One line.
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
    """What some members of a line do, alike but for their peers. Rows are those of one member; m is their number.

    Parameters
    ----------
    member
        int64[k], the members, ascending.
    kind, delay_ns, size_bytes
        uint8[m], int64[m] and int64[m], as in `CollectiveProgram`.
    pool
        int64[m], pool of a `LocalKind`, 0 to `NUM_POOLS` - 1; `ABSENT` for others.
    peer
        int64[k, m], members; `ABSENT` for all but messages.
    dep_first, dep
        int64[m + 1] and int64[...], rows a row waits for; those that wait for none start the phase.
    last
        Row that ends the phase when it completes.
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
    """Roles of all members of a line, and what each has in the end, in bytes."""

    roles: tuple[Role, ...]
    final_bytes: int
