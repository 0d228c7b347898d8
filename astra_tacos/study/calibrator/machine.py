"""A machine in a few constants for each protocol, fitted to measured times of programs.

A program of a given size takes

    launch + depth x (step + extra, if its messages are at least so large) + sqrt((U / thread_block + A / local)^2 + (V / link)^2)

or, where flags are in the words (LL) and that fits better, launch + sqrt((depth x step)^2 + (...)^2 + ...): waiting and moving
overlap. `depth` are the messages that follow one another at most, over all thread blocks and ranks: each waits for its flag.
U are the bytes that the busiest thread block sends or receives, of which those that it forwards in the same step count `_FORWARD`
times; A are those that it adds or copies in its own memory, which no protocol slows down. V are those that cross the busiest link
in one direction: thread blocks limit programs of few of them, links those of many, and in between both do. Constants are fitted
to logarithms of times, so that errors are relative. Programs of one depth do not tell the launch from the steps: it is typical
then.

Times of programs are read from CSV, or from what nccl-tests and rccl-tests write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from astra_tacos.study.calibrator.nccl_tests import PLACEMENT_NAMES, Placement, check_time, read_tests, was_checked
from astra_tacos.support.arrays import Floats
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.files import replaced_directory, write_json
from astra_tacos.support.formats.numbers import parse_decimal, parse_whole
from astra_tacos.support.formats.plain_text import read_text
from astra_tacos.verifier.msccl_file import STEP_TYPES, read_msccl_xml
from astra_tacos.verifier.program import ProvenProgram, prove_msccl_file
from astra_tacos.verifier.program_form import Action

CALIBRATION_FILE = "calibration.json"
FittedNumber = Annotated[float, msgspec.Meta(gt=0, le=1e18)]
_LEAST_POINTS = 6
"""Measured times of a protocol that a fit takes at least."""
_WORTH = 0.95
"""An extra time has to make the error that much smaller."""
_ROBUST = 0.03
"""Relative errors beyond it count by their size, not by its square."""
_FORWARD = 1.25
"""A step that forwards stores twice what it loads once: between one pass and one and a half."""
_LOCAL_GBPS = 40.0
"""Typical bandwidth of a thread block in its own memory."""


class FittedConstant(msgspec.Struct):
    """An entry of `constants` in a calibration."""

    value: FittedNumber


def constants_of(path: Path, constants: Mapping[str, FittedConstant], names: Collection[str]) -> dict[str, float]:
    """The values of some constants in a calibration.

    Raises
    ------
    ConfigError
        If one is missing.
    """
    for name in names:
        if name not in constants:
            raise ConfigError(f"{path}: constants has no {name!r}, expected {', '.join(names)}: calibrate again")
    return {name: constants[name].value for name in names}


@dataclass(frozen=True, slots=True)
class Measurements:
    """Times of one program.

    Parameters
    ----------
    times_us
        By placement of the buffers: times in us by size of the buffer in bytes, sizes ascending.
    skipped
        Times that are missing, such as those of a run that was stopped.
    """

    path: Path
    times_us: dict[Placement, dict[int, float]]
    skipped: int
    notes: tuple[str, ...] = ()

    def for_program(self, placements: tuple[bool, ...]) -> list[tuple[Placement, int, float]]:
        """Placement, size and time of all measurements that belong to a program for these placements.

        Raises
        ------
        ConfigError
            If the file only has times of the other placement.
        """
        places = [place for place in self.times_us if place is None or not placements or place in placements]
        if not places:
            has, wanted = (" and ".join(PLACEMENT_NAMES[place] for place in places) for places in (self.times_us, placements))
            raise ConfigError(f"{self.path}: has times {has}, but its program runs {wanted}: expected times {wanted}")
        return [(place, size, time) for place in places for size, time in self.times_us[place].items()]


def read_measurements(path: Path, collective: str | None = None) -> Measurements:
    """Read a table of times; of several times of one size and placement, the first counts.

    A CSV has a column `size` (or `size_bytes`), and one of times or two: names that say `inplace` or `in_place`, and
    `outofplace` or `out_of_place`, tell them apart. Of two columns without such a name, the first is out of place, as in the logs
    of nccl-tests. A column `inplace` says the placement of each row.

    Parameters
    ----------
    collective
        What the program computes, by the name of a test: times of other tests do not count. None to take all.

    Raises
    ------
    ConfigError
        If the file cannot be read, says that results are wrong, or has no line with a size and a time.
    """
    text = read_text(path)
    times: dict[Placement, dict[int, float]] = {}
    notes: list[str] = []
    if (tests := read_tests(path, text, collective)) is not None:
        others = Counter(time.collective for time in tests.times if collective and time.collective not in ("", collective))
        for time in tests.times:
            if time.collective not in others:
                times.setdefault(time.placement, {}).setdefault(time.size_bytes, time.time_us)
        skipped, left = len(tests.missing), tests.notes()
        left += [f"times left out: {count} of {name}, expected {collective}" for name, count in others.items()]
        notes = [f"{path}: {note}" for note in left]
    else:
        skipped = _read_table(path, text, times)
    if not times:
        raise ConfigError(
            f"{path}: has no line with a size and a time, expected CSV with columns size,time or a log of nccl-tests"
        )
    times_us = {place: dict(sorted(of_size.items())) for place, of_size in times.items()}
    return Measurements(path, times_us, skipped, tuple(notes))


def _read_table(path: Path, text: str, times: dict[Placement, dict[int, float]]) -> int:
    """Take the times of a CSV; returns how many are missing."""
    skipped = 0
    columns: _Columns | None = None
    for number, line in enumerate(text.splitlines(), 1):
        fields = [field.strip() for field in line.split(",")]
        if (head := _Columns.of(fields)) is not None:
            columns = head
            continue
        if line.lstrip().startswith("#") or columns is None:
            continue
        size = parse_whole(fields[columns.size]) if columns.size < len(fields) else None
        if size is None or size <= 0:
            continue
        checked = [was_checked(f"{path}:{number}", fields[at]) for at in columns.wrong if at < len(fields)]
        for placement, at in columns.times:
            time = parse_decimal(fields[at]) if at < len(fields) else None
            if time is None or not all(checked):
                skipped += placement is not True or len(columns.times) == 1  # nccl-tests leaves out times in place
                continue
            check_time(f"{path}:{number}", "time", time, fields[at])
            times.setdefault(columns.placement_of(fields, placement), {}).setdefault(size, time)
    return skipped


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where the columns of a table are: the size, times with their placement, the placement of each row (None: not said).

    And counts of wrong results.
    """

    size: int
    times: tuple[tuple[Placement, int], ...]
    row_placement: int | None
    wrong: tuple[int, ...]

    @classmethod
    def of(cls, fields: list[str]) -> _Columns | None:
        """The columns that a head names; None if it is none."""
        names = [field.lower().replace("_", "").replace("-", "").removesuffix("bytes").removesuffix("us") for field in fields]
        times = [(_placement(name), at) for at, name in enumerate(names) if name in _TIMES]
        if "size" not in names or not times:
            return None
        if len(times) > 1 and all(placement is None for placement, _ in times):
            times = [(False, times[0][1]), (True, times[1][1])]
        elif any(placement is True for placement, _ in times):
            times = [(placement or False, at) for placement, at in times]
        wrong = tuple(at for at, name in enumerate(names) if name.lstrip("#") == "wrong")
        return cls(names.index("size"), tuple(times), names.index("inplace") if "inplace" in names else None, wrong)

    def placement_of(self, fields: list[str], placement: Placement) -> Placement:
        """The placement of a time of a row."""
        if self.row_placement is None or self.row_placement >= len(fields):
            return placement
        return {"0": False, "1": True}.get(fields[self.row_placement], placement)


_TIMES = ("time", "timeinplace", "inplacetime", "timeoutofplace", "outofplacetime")


def _placement(name: str) -> Placement:
    return None if name == "time" else "outofplace" not in name


_FLAGS_IN_WORDS = "LL"
_LAUNCH_US, _LAUNCH_SPREAD = 9.0, 0.3
"""Typical launch of a program, and how far others are from it (a factor of e to this power)."""
_PASSES = np.array(
    [{"re": 0.0, "cpy": 0.0, "nop": 0.0, "s": 1.0, "r": 1.0, "rrc": 1.0}.get(name, _FORWARD) for name in STEP_TYPES]
)
_IS_LOCAL = np.array([name in ("re", "cpy") for name in STEP_TYPES])


@dataclass(frozen=True, slots=True)
class Load:
    """What a program does, in shares of its buffer.

    Parameters
    ----------
    name, protocol, placements
        Name of its file, and the protocol and the placements of buffers that the file states (in place: True).
    block, local, link, message
        Shares of the buffer: what the busiest thread block sends and receives, what it adds and copies in its own memory, what
        crosses the busiest link, the largest message.
    depth
        Messages that follow one another at most.
    """

    name: str
    protocol: str
    placements: tuple[bool, ...]
    num_npus: int
    collective: str
    block: float
    local: float
    link: float
    message: float
    depth: int


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of a protocol.

    Parameters
    ----------
    threshold_bytes
        Steps of messages of at least so many bytes cost the extra time; None if there is none.
    block_gbps, link_gbps
        Decimal GB/s of a thread block, and of a link in one direction.
    """

    launch_us: float
    step_us: float
    extra_us: float
    threshold_bytes: int | None
    overlaps: bool
    block_gbps: float
    link_gbps: float

    def time_us(self, load: Load, size_bytes: int) -> float:
        """The time of a program."""
        is_large = self.threshold_bytes is not None and load.message * size_bytes >= self.threshold_bytes
        block, local, link = (share * size_bytes / (rate * 1e3) for share, rate in (
            (load.block, self.block_gbps), (load.local, _LOCAL_GBPS), (load.link, self.link_gbps)))  # fmt: skip
        waiting = load.depth * (self.step_us + (self.extra_us if is_large else 0.0))
        moving = float(np.hypot(block + local, link))
        return self.launch_us + (float(np.hypot(waiting, moving)) if self.overlaps else waiting + moving)


@dataclass(frozen=True, slots=True)
class Point:
    """A measured time of a program, with its buffers in place (True), out of place (False), or where the file does not say."""

    load: Load
    size_bytes: int
    time_us: float
    placement: Placement = None


@dataclass(frozen=True, slots=True)
class Errors:
    """Relative errors of predictions."""

    count: int
    median: float
    p90: float
    worst: float

    @classmethod
    def of(cls, errors: list[float]) -> Errors:
        """Their summary."""
        return cls(len(errors), float(np.median(errors)), float(np.percentile(errors, 90)), max(errors))


def write_calibration(output: Path | None, result: dict[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Write calibration.json, and texts by name; returns the result with the directory, None for none."""
    result = result | {"output": None if output is None else str(output)}
    if output is not None:
        with replaced_directory(output) as folder:
            write_json(folder / CALIBRATION_FILE, result)
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8")
    return result


def robust(error: Floats) -> Floats:
    """Residuals whose squares grow like those of errors below 1, and like errors beyond: the soft L1 loss."""
    return np.sign(error) * np.sqrt(2 * (np.sqrt(1 + error**2) - 1))  # type: ignore[no-any-return]


def spread_of(jacobian: Floats) -> list[float]:
    """How uncertain each parameter of a least-squares fit is, from the Jacobian of its residuals there."""
    return np.sqrt(np.diag(np.linalg.pinv(jacobian.T @ jacobian))).tolist()  # type: ignore[no-any-return]


def load_of(path: Path) -> Load:
    """What a program does.

    Raises
    ------
    ConfigError, VerificationError
        If the file is no MSCCL XML, or the oracle does not prove it.
    """
    file = read_msccl_xml(path)
    proven = prove_msccl_file(file)
    program = proven.program
    num_chunks = float(proven.whole)
    moved, local = (
        np.bincount(file.block_of, of_kind[file.kind] * file.cnt, len(file.blocks)) / file.num_chunks
        for of_kind in (_PASSES, _IS_LOCAL)
    )
    busiest = int((moved + local / 2).argmax())
    sends = np.flatnonzero(program.action_kind == Action.SEND)
    src, dst = program.op_rank[program.action_op[sends]], program.action_peer[sends]
    _, pair = np.unique(src * file.num_npus + dst, return_inverse=True)
    crossing = np.bincount(pair, program.action_count[sends])
    return Load(
        path.name,
        file.protocol or "",
        file.placements,
        file.num_npus,
        proven.collective,
        float(moved[busiest]),
        float(local[busiest]),
        float(crossing.max()) / num_chunks,
        float(program.action_count[sends].max()) / num_chunks,
        _depth(proven),
    )


def _depth(proven: ProvenProgram) -> int:
    """Messages that follow one another at most."""
    program, place = proven.program, proven.order.place
    depth = np.zeros(program.num_ops, np.int64)
    sent = program.action_op[program.message_send], program.action_op[program.message_recv]
    before = np.concatenate((program.before, sent[0]))
    after = np.concatenate((program.after, sent[1]))
    weight = np.concatenate((np.zeros(len(program.before), np.int64), np.ones(len(sent[0]), np.int64)))
    for edge in np.argsort(place[before], kind="stable").tolist():
        depth[after[edge]] = max(depth[after[edge]], depth[before[edge]] + weight[edge])
    return int(depth.max(initial=0))


def points_of(load: Load, measured: Measurements, least_bytes: int) -> list[Point]:
    """Measured times of a program from a size on, of the placements of buffers that it is for.

    Raises
    ------
    ConfigError
        If all times are of the other placement.
    """
    rows = measured.for_program(load.placements)
    return [Point(load, size, time, placement) for placement, size, time in rows if size >= least_bytes]


def fit(points: list[Point]) -> Constants:
    """The constants that fit some points of one protocol best.

    Raises
    ------
    ConfigError
        If there are too few points.
    """
    from scipy.optimize import least_squares

    if len(points) < _LEAST_POINTS:
        name = points[0].load.protocol if points else "a protocol"
        raise ConfigError(f"{name}: {len(points)} measured times, expected at least {_LEAST_POINTS}")
    size = np.array([point.size_bytes for point in points], np.float64)
    block, local, link, message = (
        np.array([getattr(point.load, name) for point in points]) * size for name in ("block", "local", "link", "message")
    )
    depth = np.array([point.load.depth for point in points])
    local /= _LOCAL_GBPS * 1e3
    time = np.array([point.time_us for point in points])
    slope = float(time.max() / block.max())
    launch, typical = min(_LAUNCH_US, 0.7 * float(time.min())), np.log(_LAUNCH_US)
    step = (float(time.min()) - launch) / float(depth.max())
    start = np.log([launch, step, 0.1 * step, slope, 0.1 * slope])
    best: tuple[float, int | None, bool, Floats] | None = None
    thresholds = [1 << power for power in range(8, 40) if message.min() < 1 << power <= message.max()]
    may_overlap = ((None, True),) if points[0].load.protocol == _FLAGS_IN_WORDS else ()
    for threshold, overlaps in ((None, False), *may_overlap, *((threshold, False) for threshold in thresholds)):
        is_large = np.zeros(len(points)) if threshold is None else (message >= threshold).astype(np.float64)

        def residuals(x: Floats, is_large: Floats = is_large, overlaps: bool = overlaps) -> Floats:
            launch, step, extra, per_block, per_link = np.exp(x)
            waiting = depth * (step + extra * is_large)
            moving = np.hypot(per_block * block + local, per_link * link)
            model = launch + (np.hypot(waiting, moving) if overlaps else waiting + moving)
            return np.append(np.log(model / time), (x[0] - typical) / _LAUNCH_SPREAD * _ROBUST)

        optimum = least_squares(residuals, start, loss="soft_l1", f_scale=_ROBUST)
        if best is None or optimum.cost < _WORTH * best[0]:
            best = float(optimum.cost), threshold, overlaps, np.exp(optimum.x)
    assert best is not None
    _, threshold, overlaps, (launch, step, extra, per_block, per_link) = best
    return Constants(
        float(launch),
        float(step),
        0.0 if threshold is None else float(extra),
        threshold,
        overlaps,
        float(1e-3 / per_block),
        float(1e-3 / per_link),
    )


def errors_of(constants: Constants, points: list[Point]) -> list[float]:
    """Relative errors of the times of some points."""
    return [abs(constants.time_us(point.load, point.size_bytes) / point.time_us - 1) for point in points]


def cross_validated(points: list[Point]) -> list[float] | None:
    """Errors of points by constants that were fitted to the other half of the programs; None for fewer than four programs."""
    names = list(dict.fromkeys(point.load.name for point in points))
    if len(names) < 4:
        return None
    errors: list[float] = []
    for half in (set(names[::2]), set(names[1::2])):
        constants = fit([point for point in points if point.load.name in half])
        errors += errors_of(constants, [point for point in points if point.load.name not in half])
    return errors
