"""Candidates: files of programs that are compared with what synthesizers make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from astra_tacos.collective.collective import Collective
from astra_tacos.export.program_schedule import Converted, convert
from astra_tacos.network.topology import Topology
from astra_tacos.schedule.settle import exact_time_ns
from astra_tacos.schedule.timing import LinkModel
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import format_size
from astra_tacos.verifier.proven_program import ProvenProgram, prove


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A proven program of a file.

    Parameters
    ----------
    proven
        The program.
    digest
        SHA-256 of the file, in hexadecimal digits.
    """

    proven: ProvenProgram
    digest: str

    @property
    def name(self) -> str:
        """Name of the file, by which rows and schedules call it; its suffix tells it from synthesizers."""
        return self.proven.path.name

    def schedule(
        self, topology: Topology, collective: Collective, models: Iterable[LinkModel], reduce_bandwidth_gbps: float
    ) -> Converted:
        """Its schedule of a collective on a network; with several link models, the faster one.

        Parameters
        ----------
        topology, collective
            What is to be scheduled. The program keeps its own number of chunks.
        models, reduce_bandwidth_gbps
            As for `convert`.

        Raises
        ------
        ConfigError
            If the program is of another collective, or as `convert`.
        SynthesisError
            As `convert`.
        """
        if reason := self.why_not(collective):
            raise ConfigError(f"{self.proven.path}: {reason}")
        found = [convert(self.proven, topology, collective.size_bytes, model, reduce_bandwidth_gbps) for model in models]
        return min(found, key=lambda each: exact_time_ns(each.schedule))

    def why_not(self, collective: Collective) -> str | None:
        """The reason why this program does not do a collective; None if it does."""
        proven = self.proven
        if proven.collective != collective.name:
            return f"is of {proven.collective}, not of {collective.name}"
        if collective.members is not None or proven.num_ranks != collective.num_npus:
            return f"is for {proven.num_ranks} NPUs, not for {collective.num_members} of {collective.num_npus}"
        if proven.root != collective.root:
            return f"has the root {proven.root}, not {collective.root}"
        return None

    def note(self, collective: Collective) -> str:
        """What there is to say of a size that the file is not meant for; empty if it is."""
        least, most = self.proven.least_bytes or 0, self.proven.most_bytes
        if least <= collective.buffer_bytes and (most is None or collective.buffer_bytes <= most):
            return ""
        limits = f"{format_size(least)} or more" if most is None else f"{format_size(least)} to {format_size(most)}"
        return f"{self.proven.path.name} is meant for buffers of {limits}"


def read_candidate(path: str | Path, collective_name: str | None = None) -> Candidate:
    """Read and prove the program of a file.

    Parameters
    ----------
    path
        An MSCCL XML, an MSCCL++ plan (`.json`), or the prefix of a collective's Chakra traces.
    collective_name
        What a file that says `custom` has to compute.

    Raises
    ------
    ConfigError
        If the file is not well-formed.
    VerificationError
        If the program is not proven to compute its collective.
    """
    proven = prove(path, collective_name)
    files = [Path(path)] if Path(path).is_file() else [Path(f"{path}.{rank}.et") for rank in range(proven.num_ranks)]
    digest = sha256()
    for file in files:
        digest.update(file.read_bytes())
    return Candidate(proven, digest.hexdigest())
