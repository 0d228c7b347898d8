"""Diagnosis of a stalled replay: the chain of waits from a rank that never finishes to the message or node that causes it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_tacos.replayer import _run_table_kernels as kernels
from astra_tacos.replayer.casting import Casts
from astra_tacos.replayer.collective_program import CollectiveProgram
from astra_tacos.replayer.compilation import Compiled, are_sends, template_sends
from astra_tacos.run.run import Run
from astra_tacos.run.trace.trace import Trace
from astra_tacos.support.arrays import Ints

_CHAIN_ENDS = 4
_SHORT_WAY = 2
"""A cycle at most this many steps away is described together with the steps that lead to it."""
_DEPENDENCY = "waits for rank "
"""The first words of a step that is a dependency; all other steps name what is waited for."""


class Stall:
    """A replay that has no events left although some ranks have not finished."""

    def __init__(self, run: Run, casts: Casts, compiled: Compiled, state: kernels.Progress, of_collective: bool = False) -> None:
        """With `of_collective` the workload only stands for one collective, so that texts do not mention it."""
        self._run, self._casts, self._state = run, casts, state
        self._code = compiled.code
        self._stage, self._rank = state.lives["state"], state.lives["rank"]
        self._program_first = compiled.program_first
        self._num_rows = run.workload.num_nodes
        self._of_collective = of_collective

    def describe(self, live: int) -> str:
        """A live node in words: `rank 3, node 17`, and its collective if it belongs to one."""
        rank = int(self._rank[live])
        row = self._row(live)
        return self._describe_row(rank, row)

    def explain(self, rank: int) -> str:
        """The chain of waits that begins at a rank, in words; if it ends in a cycle, the cycle."""
        live = self._stuck_in_collective(rank) if self._of_collective else self._stuck_in_workload(rank)
        lives, steps = [live], [self.describe(live)]
        while True:
            reason = self._next(live)
            if isinstance(reason, str):
                return _joined([*self._shortened(lives, steps), reason])
            live, text = reason
            lives.append(live)
            steps.append(text)
            if live in lives[:-1]:
                break
        begin = lives.index(live)
        cycle_text = f"{_joined(self._shortened(lives, steps))}: a cycle"
        chain = _joined(self._shortened(lives[begin:], [self.describe(live), *steps[begin + 1 :]]))
        return cycle_text if begin <= _SHORT_WAY else f"{steps[0]} waits behind a cycle: {chain}"

    def _shortened(self, lives: list[int], steps: list[str]) -> list[str]:
        """The steps, with consecutive dependencies within one rank merged into one step."""
        short: list[str] = []
        index = 0
        while index < len(steps):
            end = index
            while index > 0 and end + 1 < len(steps) and all(step.startswith(_DEPENDENCY) for step in steps[end : end + 2]):
                end += 1
            between = end - index
            short.append(steps[index] if not between else f"waits, through {between} more, for {self.describe(lives[end])}")
            index = end + 1
        if len(short) > 2 * _CHAIN_ENDS + 1:
            short[_CHAIN_ENDS:-_CHAIN_ENDS] = [f"... ({len(short) - 2 * _CHAIN_ENDS} more)"]
        return short

    def _row(self, live: int) -> int:
        return live if live < self._num_rows else live + int(self._state.shift[self._rank[live]])

    def _describe_row(self, rank: int, row: int) -> str:
        text = f"rank {rank}, node {int(self._code.node_id[row])}"
        if row < self._num_rows or self._of_collective:
            return text
        return f"{text} of {self._program_of(row)[0].source}"

    def _program_of(self, row: int) -> tuple[CollectiveProgram, int]:
        """The program that a row belongs to, and the first row of that program."""
        number = int(np.searchsorted(self._program_first, row, side="right")) - 2
        return self._casts.programs[number], int(self._program_first[number + 1])

    def _stuck_in_workload(self, rank: int) -> int:
        """A node of the rank's workload that was issued and is not finished, else one that could be issued."""
        first, end = self._run.workload.rank_first[rank : rank + 2].tolist()
        state = self._stage[first:end]
        issued = state == kernels.ISSUED
        if issued.any():
            held = issued & (self._code.slot[first:end] != kernels.NO_SLOT)
            return int(first) + int(np.argmax(held if held.any() else issued))
        return int(first) + int(np.argmax((state == kernels.UNTOUCHED) & (self._state.lives["waits"][first:end] == 0)))

    def _stuck_in_collective(self, rank: int) -> int:
        first = int(self._code.block_first[rank])
        lives = np.arange(first, first + self._size_of_collective(rank))
        issued = self._stage[lives] == kernels.ISSUED
        receives = self._code.nodes["action"][lives + int(self._state.shift[rank])] == kernels.RECEIVE
        return first + int(np.argmax(issued & receives if (issued & receives).any() else issued))

    def _next(self, live: int) -> tuple[int, str] | str:
        """The live node that a node waits for and the text of this step, or the text that ends the chain."""
        rank, row = int(self._rank[live]), self._row(live)
        if self._stage[live] == kernels.ISSUED:
            action = self._code.nodes["action"][row]
            if action == kernels.COLLECTIVE:
                inner = self._stuck_in_collective(rank)
                inner_row = self._row(inner)
                return inner, f"is at node {int(self._code.node_id[inner_row])} of {self._program_of(inner_row)[0].source}"
            if action == kernels.RECEIVE:
                return self._awaited_message(rank, row)
            return "waits for others of its rank"
        if self._state.lives["waits"][live] > 0:
            parents = self._parents(row)
            shift = row - live
            unfinished = parents[self._stage[parents - shift] != kernels.FINISHED]
            other = int(unfinished[0]) - shift
            return other, f"waits for {self.describe(other)}"
        first, end = self._run.workload.rank_first[rank : rank + 2].tolist()
        rows = np.arange(first, end)
        holders = rows[(self._stage[rows] == kernels.ISSUED) & (self._code.slot[rows] == self._code.slot[row])]
        if holders.size:
            return int(holders[0]), f"waits for its slot, which is held by {self.describe(int(holders[0]))}"
        return (
            "never starts: a node that ends at once (INVALID, or COMP without bytes) made it ready, and no other event "
            "happens on its rank"
        )

    def _parents(self, row: int) -> Ints:
        trace: Trace | CollectiveProgram = self._run.workload
        base = 0
        if row >= self._num_rows:
            trace, base = self._program_of(row)
        return trace.dep[trace.dep_first[row - base] : trace.dep_first[row - base + 1]] + base

    def _key_row(self, rank: int, row: int) -> int:
        return row if row < self._num_rows else row + int(self._state.key_shift[rank])

    def _awaited_message(self, rank: int, row: int) -> tuple[int, str] | str:
        """The next step from a receive: the send that it waits for, or the text that ends the chain."""
        code = self._code
        key = int(code.address["key"][self._key_row(rank, row)])
        source = self._source_of(rank, row)
        # The send is in the collective that the sender runs, in its workload, or in a collective that it has not begun.
        first, end = code.block_first[source : source + 2].tolist()
        if self._state.parent[source] >= 0:
            size = self._size_of_collective(source)
            lives = np.arange(first, min(first + size, end))
            rows = lives + int(self._state.shift[source])
            awaited = self._unsent(rows, rows + int(self._state.key_shift[source]), key, self._stage[lives])
            if awaited.size:
                other = int(lives[awaited[0]])
                return other, f"waits for the message of {self.describe(other)}"
        first, end = self._run.workload.rank_first[source : source + 2].tolist()
        rows = np.arange(first, end)
        awaited = self._unsent(rows, rows, key, self._stage[rows])
        if awaited.size:
            other = int(rows[awaited[0]])
            return other, f"waits for the message of {self.describe(other)}"
        for other in rows[(code.nodes["action"][rows] == kernels.COLLECTIVE) & (self._stage[rows] == kernels.UNTOUCHED)].tolist():
            for cast in {int(self._casts.custom[other]), int(self._casts.native[other])} - {-1}:
                sender = self._row_in_cast(cast, self._template(cast, other), key)
                if sender is not None:
                    return (
                        other,
                        f"waits for the message of {self._describe_row(source, sender)}, begun by {self.describe(other)}",
                    )
        return self._missing_message(rank, row, source, key)

    def _source_of(self, rank: int, row: int) -> int:
        if row < self._num_rows:
            return int(self._run.workload.peer[row])
        program, base = self._program_of(row)
        cast = int(self._state.ran[self._state.parent[rank]])
        return int(self._casts.members[self._casts.cast_group[cast]][program.peer[row - base]])

    def _size_of_collective(self, rank: int) -> int:
        parent = int(self._state.parent[rank])
        template = self._template(int(self._state.ran[parent]), parent)
        return int(self._code.template_first[template + 1] - self._code.template_first[template])

    def _unsent(self, rows: Ints, key_rows: Ints, key: int, state: NDArray[np.uint8]) -> Ints:
        sends = are_sends(self._code, rows) & (state == kernels.UNTOUCHED)
        return np.flatnonzero(sends & (self._code.address["key"][key_rows] == key))

    def _template(self, cast: int, row: int) -> int:
        """The template that a collective node of the workload runs in a cast."""
        if cast == self._casts.native[row]:
            return int(self._code.native_template[row])
        return int(self._code.cast_template[cast]) + int(self._casts.position[row])

    def _row_in_cast(self, cast: int, template: int, key: int) -> int | None:
        """The first row of a template that sends a message with this key, None if there is none."""
        rows = template_sends(self._code, template)
        matches = rows[self._code.address["key"][rows + int(self._code.cast_shift[cast])] == key]
        return int(matches[0]) if matches.size else None

    def _missing_message(self, rank: int, row: int, source: int, key: int) -> str:
        """The text for a receive that no send matches, with the send that was probably meant."""
        code = self._code
        trace: Trace | CollectiveProgram = self._run.workload
        base = 0
        if row >= self._num_rows:
            trace, base = self._program_of(row)
        size, tag = int(code.nodes["amount"][row]), int(trace.tag[row - base])
        text = f"waits for a message from rank {source} ({size} bytes, tag {tag}) that "
        pair = int(code.address["pair"][self._key_row(rank, row)])
        if row < self._num_rows:
            rows = np.arange(*self._run.workload.rank_first[source : source + 2].tolist())
            key_rows = rows
        else:
            cast = int(self._state.ran[self._state.parent[rank]])
            template = int(code.cast_template[cast]) + int(trace.peer[row - base])
            rows = np.arange(code.template_first[template], code.template_first[template + 1])
            key_rows = rows + int(code.cast_shift[cast])
        meant = np.flatnonzero(are_sends(code, rows) & (code.address["pair"][key_rows] == pair))
        if np.any(code.address["key"][key_rows[meant]] == key):
            if row < self._num_rows or self._of_collective:
                return text + "is sent too few times"
            return text + f"rank {source} does not send: it has no node left that runs {self._program_of(row)[0].source}"
        tags = trace.tag[rows[meant] - base]
        near = meant[(code.nodes["amount"][rows[meant]] == size) | (tags == tag)]
        if not near.size:
            return text + "no node sends"
        other = int(rows[near[0]])
        message = f"{int(code.nodes['amount'][other])} bytes, tag {int(trace.tag[other - base])}"
        return text + f"no node sends ({self._describe_row(source, other)} sends {message})"


def _joined(steps: list[str]) -> str:
    return f"{steps[0]} {', which '.join(steps[1:])}".replace(", which ...", ", ...")


def explain_stall(run: Run, casts: Casts, compiled: Compiled, state: kernels.Progress, of_collective: bool = False) -> str:
    """One line: the chain of waits of the first rank that never finishes, and the number of other such ranks.

    Parameters
    ----------
    of_collective
        Whether the workload only stands for one collective, so that messages do not mention it.
    """
    stuck = np.flatnonzero(state.rank_finish_ns < 0)
    text = Stall(run, casts, compiled, state, of_collective).explain(int(stuck[0]))
    others = len(stuck) - 1
    if of_collective or not others:
        return text
    return f"{text}; {others} more {'rank never finishes' if others == 1 else 'ranks never finish'}"
