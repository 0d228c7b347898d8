"""What nccl-tests and rccl-tests write: tables as text, and JSON.

A line is searched for what the tests print, so that nothing before that matters: tags of mpirun, srun and pods, times of the day.
The forms are those of `src/common.cu` and `src/util.cu` of nccl-tests, and of `Reporter` in `src/common.cu` of rccl-tests. A size
is the larger of what a rank sends and what it gets: the vector of All-Reduce, Broadcast and Reduce, the n blocks of All-Gather,
Reduce-Scatter and All-to-All, one message of Send-Receive.

A run whose results are wrong measured no collective. A run whose busbw / algbw belongs to another number of ranks is not of the
ranks that its file lists. Both are refused.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.formats.json_files import parse_json_values
from astra_tacos.support.formats.numbers import parse_decimal, parse_whole
from astra_tacos.support.formats.values import are_mappings, describe, list_value, mapping_value

Placement = bool | None
"""In place (True), out of place (False), or not said (None)."""

PLACEMENT_NAMES: dict[Placement, str] = {True: "in place", False: "out of place", None: "of a placement that is not said"}
Shape = tuple[int, int]
"""Nodes, and GPUs of each."""
_TIMES_US = 1e-3, 1e12
"""Shortest and longest time that may have been measured: a nanosecond, eleven days."""
_MOST_GPUS = 1 << 20
"""Of a run, as many as no machine has: a product of counts above that is a mistake."""
_MOST_HINTED = 4096
"""Most ranks that are tried to tell which number of ranks a ratio of bandwidths would fit."""
_OF_LAUNCH = "which is the CPU's time of a launch, expected time: run without -C"
"""What is wrong with times of the CPU, whose column or key stands before."""


@dataclass(frozen=True, slots=True)
class KnownTest:
    """A test: the collective that it measures, None for one that no model has, and its busbw / algbw by number of ranks."""

    collective: str | None
    factor: Callable[[int], float]


def _each_but_one(ranks: int) -> float:
    return (ranks - 1) / ranks


def _once(ranks: int) -> float:
    return 1.0


TESTS = {
    "all_reduce": KnownTest("all_reduce", lambda ranks: 2 * (ranks - 1) / ranks),
    "all_gather": KnownTest("all_gather", _each_but_one),
    "reduce_scatter": KnownTest("reduce_scatter", _each_but_one),
    "alltoall": KnownTest("all_to_all", _each_but_one),
    "broadcast": KnownTest("broadcast", _once),
    "reduce": KnownTest("reduce", _once),
    "sendrecv": KnownTest("sendrecv", _once),
    "send": KnownTest("send", _once),
    "alltoallv": KnownTest(None, _each_but_one),
    "gather": KnownTest(None, _each_but_one),
    "scatter": KnownTest(None, _each_but_one),
    "hypercube": KnownTest(None, _once),
}
"""The tests that are known, by name without `_perf`."""
COLLECTIVES = tuple(test.collective for test in TESTS.values() if test.collective is not None)


def plain_name(name: str) -> str:
    """A name of a collective or test without what people write differently: `AllReduce`, `all-reduce`, `all_reduce`."""
    return name.lower().replace("_", "").replace("-", "")


_BY_NAME = {plain_name(name): test for name, test in TESTS.items()}
_IN_NAMES = re.compile(rf"(?<![a-z])(?:{'|'.join(sorted((*TESTS, *COLLECTIVES, *_BY_NAME), key=len, reverse=True))})(?![a-z])")


@dataclass(frozen=True, slots=True)
class TestTime:
    """A time of a test.

    Parameters
    ----------
    collective
        What it measures; empty where the file does not say.
    shape
        Its ranks; None where the file does not say.
    """

    __test__ = False  # no test of pytest

    collective: str
    shape: Shape | None
    placement: Placement
    size_bytes: int
    time_us: float
    source: str


@dataclass(slots=True)
class TestOutput:
    """What a file has: its times, how many are missing, and notes on what was left out."""

    __test__ = False

    path: Path
    collective: str
    shape: Shape | None
    times: list[TestTime] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    empty: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    other_lines: list[int] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """What was left out, counted and named."""
        known = f"expected one of {', '.join(COLLECTIVES)}"
        notes = [f"times left out: {count} of {name}, {known}" for name, count in self.left_out.items()]
        if self.missing:
            notes.append(f"times missing: {len(self.missing)}, the first at {self.missing[0]}")
        if self.empty:
            notes.append(f"times left out: {self.empty} of 0 bytes")
        if self.other_lines:
            notes.append(f"lines of other programs left out: {len(self.other_lines)}, the first is line {self.other_lines[0]}")
        return notes + self.remarks

    def add(self, test: _Run, where: str, size: int, placement: Placement, cells: Mapping[str, str | None]) -> None:
        """Take a time, with its bandwidths and the count of wrong results as they are written, or count it."""
        if test.is_left_out:
            self.left_out[test.name] += 1
            return
        time = parse_decimal(cells["time"] or "")
        if not was_checked(where, cells.get("wrong"), cells.get("error")) or time is None:
            self.missing.append(where)
            return
        check_time(where, "time", time, cells["time"])
        if not size:
            self.empty += 1
            return
        shape = test.shape(where) or self.shape
        if test.known is not None and shape is not None:
            _check_factor(where, test.known, shape[0] * shape[1], cells.get("algbw") or "", cells.get("busbw") or "")
        collective = "" if test.known is None else str(test.known.collective)
        self.times.append(TestTime(collective, shape, placement, size, time, where))


class _Run:
    """A run of a test: its name, what is known of it, and the ranks that it lists, with hosts and groups."""

    def __init__(self, name: str) -> None:
        self.name, self.known = name, _BY_NAME.get(plain_name(name))
        if name and self.known is None:
            self.known = KnownTest(None, _once)
        self.ranks: list[tuple[int, str, str]] = []

    @classmethod
    def of_program(cls, path: str) -> _Run:
        """The run of a program by its path: `build/all_reduce_perf_mpi`."""
        return cls(re.sub(r"_perf(?:_mpi)?(?:\.exe)?$", "", PurePosixPath(path).name))

    @property
    def is_left_out(self) -> bool:
        """Whether no model has what it measures."""
        return self.known is not None and self.known.collective is None

    def shape(self, where: str) -> Shape | None:
        """Nodes and GPUs of each; None where no rank is listed."""
        if not self.ranks:
            return None
        count, times = len(self.ranks), Counter(rank for rank, _, _ in self.ranks)
        lost = next((rank for rank in range(max(times)) if rank not in times), None)
        if lost is not None:
            raise ConfigError(f"{where}: rank {lost} is not among the {count} ranks that are listed, expected 0 to {max(times)}")
        if count > len(times):
            twice = next(rank for rank, number in times.items() if number > 1)
            raise ConfigError(f"{where}: rank {twice} is listed {times[twice]} times, expected each rank once")
        groups = {group for _, _, group in self.ranks}
        if len(groups) > 1:
            raise ConfigError(f"{where}: ranks of {len(groups)} groups run at once (NCCL_TESTS_SPLIT), expected one group")
        hosts = Counter(host for _, host, _ in self.ranks)
        if len(set(hosts.values())) > 1:
            raise ConfigError(f"{where}: {count} ranks on {len(hosts)} hosts, expected as many on each")
        return len(hosts), count // len(hosts)


def check_time(where: str, name: str, time_us: float | None, stated: object) -> float:
    """A measured time that a clock and a network may give; `stated` is what the file has."""
    least, most = _TIMES_US
    if time_us is None or not least <= time_us <= most:
        raise ConfigError(f"{where}: {name} is {describe(stated)}, expected microseconds from {least:g} to {most:g}")
    return time_us


def was_checked(where: str, wrong: str | None, error: str | None = None) -> bool:
    """Whether a run came to the end of its check, or has none.

    Raises
    ------
    ConfigError
        If a count of wrong results is above 0, or old versions mark an error as above their threshold.
    """
    if error is not None and error.endswith("*"):
        raise ConfigError(f"{where}: error {error} is above the threshold of the test: the result of the collective is wrong")
    if wrong is None or wrong in ("", "N/A"):
        return True
    count = parse_decimal(wrong.removesuffix("*"))
    if count is not None and count > 0:
        raise ConfigError(f"{where}: {wrong} results are wrong (#wrong), expected 0 wrong results")
    return count == 0


def _check_factor(where: str, test: KnownTest, ranks: int, algbw: str, busbw: str) -> None:
    """Refuse bandwidths, as they are rounded, whose ratio is not that of a test of so many ranks."""
    rates = parse_decimal(algbw), parse_decimal(busbw)
    if any(rate is None or not math.isfinite(rate) for rate in rates):
        return
    (least_alg, most_alg), (least_bus, most_bus) = _rounded(algbw), _rounded(busbw)
    if least_alg <= 0:
        return

    def fits(count: int) -> bool:
        return least_bus <= test.factor(count) * most_alg and test.factor(count) * least_alg <= most_bus

    if not fits(ranks):
        others = [count for count in range(2, _MOST_HINTED + 1) if fits(count)]
        hint = f", which fits {others[0]} ranks" if len(others) == 1 else ""
        raise ConfigError(
            f"{where}: busbw / algbw is {busbw} / {algbw}{hint}, expected {test.factor(ranks):.4g} for {test.collective} of "
            f"{ranks} ranks: lines of the log are lost, or another collective ran"
        )


def _rounded(text: str) -> tuple[float, float]:
    """Between what a number lies that was rounded to these digits."""
    digits, _, exponent = text.lower().partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return float(text) - half * (1 + 1e-9), float(text) + half * (1 + 1e-9)


def read_tests(path: Path, text: str, collective: str | None = None, shape: Shape | None = None) -> TestOutput | None:
    """All times of a log or a JSON file; None for a file that neither nccl-tests nor rccl-tests wrote.

    Parameters
    ----------
    collective, shape
        What counts where the file does not say it. Without `collective`, the file's name may (`all_reduce_perf.log`).

    Raises
    ------
    ConfigError
        With the line, if results are wrong, ranks are lost, or a line cannot be what the tests print.
    """
    named = {match.group() for match in _IN_NAMES.finditer(path.name.lower())}
    name = collective or (named.pop() if len(named) == 1 else "")
    output = TestOutput(path, name, shape)
    values = [(line, value) for line, value in parse_json_values(text, path) if are_mappings(value)]
    results = [_read_json(output, f"{path}:{line}", value) for line, value in values]
    if any(results):
        return output
    if _Log(output).read(text):
        return output
    if values and not text.lstrip().startswith("#"):
        line, value = values[0]
        keys = describe(value if isinstance(value, dict) else value[0])
        raise ConfigError(f"{path}: is JSON, {keys} in line {line}, expected results of nccl-tests or rccl-tests, or CSV")
    return None


_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ROW = r"\d+\s+\d+\s+[a-z]\w*\s+(?:[a-z]\w*\s+)?-?\d+(?=\s|$)"
_CONTENT = re.compile(
    r"(?:#\s*)?Out of bounds values|#\s*(?:Collective test|nThread|Using devices|Rank\s+\d|\(B\)|Avg bus|out-of-place|in-place)"
    rf"|(?<![\w.]){_ROW}"
)
_HEAD = re.compile(r"\balgbw\s+busbw\b")
_STARTING = re.compile(r"#\s*Collective test starting:\s*(\S+)")
_CONCLUDED = re.compile(r"#\s*Collective test concluded")
_BEGINS = re.compile(r"#\s*(?:nThread|Using devices)")
_RANK = re.compile(r"#\s*Rank\s+(\d{1,9})\s+(?:Group\s+(\d+)\s+)?.*?\bon\s+(\S+)\s+device\b")
_UNITS = re.compile(r"#\s*\(B\)\s")
_PLACES = re.compile(r"#\s*(?:out-of-place|in-place)")
_BOUNDS = re.compile(r"(?:#\s*)?Out of bounds values\s*:\s*(\d{1,18})\s*(\w*)")
_AVERAGE = re.compile(r"#\s*Avg bus bandwidth\s*:\s*\S+\s+FAILED")
_COLUMNS = ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2)
"""Columns of nccl-tests, for a log without their names."""
_QUIET = re.compile(r"(?:^|[\s:>|\])}])#|^\s*(?:```|~~~)|^\S{0,40}[>:|\]]\s*$")
"""Comments, ends of quotes, and tags of lines with nothing in them."""


def _content(line: str) -> str:
    """What the tests printed of a line, without what stands before; empty for a line of something else."""
    plain = _ESCAPES.sub("", line)
    if _HEAD.search(plain):
        return plain[max(plain.find("size"), 0) :]
    match = _CONTENT.search(plain)
    return plain[match.start() :] if match else ""


class _Log:
    """Tables as text, line by line."""

    def __init__(self, output: TestOutput) -> None:
        self.output, self.run = output, _Run(output.collective)
        self.names: tuple[str, ...] = _COLUMNS
        self.placements: list[Placement] = [False, True]
        self.titles: list[Placement] = []

    def read(self, text: str) -> bool:
        """Whether any line is of nccl-tests."""
        is_any = False
        for number, line in enumerate(text.splitlines(), 1):
            if content := _content(line):
                self._read_line(f"{self.output.path}:{number}", content)
                is_any = True
            elif line.strip() and not _QUIET.search(line):
                self.output.other_lines.append(number)
        return is_any

    def _read_line(self, where: str, content: str) -> None:
        if _HEAD.search(content):
            self._read_head(where, content)
        elif match := _STARTING.match(content):
            self.run = _Run.of_program(match[1])
        elif _CONCLUDED.match(content):
            self.run = _Run(self.output.collective)
        elif _BEGINS.match(content):
            self.run.ranks = []
        elif match := _RANK.match(content):
            self.run.ranks.append((int(match[1]), match[3], match[2] or ""))
        elif match := _BOUNDS.match(content):
            if not self.run.is_left_out and (int(match[1]) or match[2] == "FAILED"):
                raise ConfigError(f"{where}: {match[1]} sizes have wrong results (out of bounds: {match[2]}), expected 0")
        elif _AVERAGE.match(content):
            self.output.remarks.append(f"the test says that its bandwidth is too low ({where.rpartition(':')[2]}: FAILED)")
        elif _UNITS.match(content):
            if "(us)" not in content:
                raise ConfigError(f"{where}: times are not in us, expected the columns of nccl-tests")
        elif _PLACES.match(content):
            self.titles = [word == "in-place" for word in re.findall("out-of-place|in-place", content)]
        elif re.match(_ROW, content):
            self._read_row(where, content.split())

    def _read_head(self, where: str, content: str) -> None:
        self.names = tuple(content.strip("# ").split())
        if "cputime" in self.names:
            raise ConfigError(f"{where}: column cputime, {_OF_LAUNCH}")
        if self.names[0] != "size" or "time" not in self.names:
            raise ConfigError(f"{where}: names columns {', '.join(self.names[:6])}, expected size, count, ..., time, algbw")
        if any(self.names[at + 1 : at + 3] != ("algbw", "busbw") for at, name in enumerate(self.names) if name == "time"):
            raise ConfigError(f"{where}: names columns {' '.join(self.names)[:200]}, expected algbw and busbw after each time")
        only = self.titles[0] if len(self.titles) == 1 else None
        self.placements = [False, True] if self.names.count("time") == 2 else [only]
        self.titles = []

    def _read_row(self, where: str, fields: list[str]) -> None:
        most = len(self.names) + ("timestamp" in self.names)
        if len(fields) > most:
            raise ConfigError(f"{where}: has {len(fields)} fields, expected {most}")
        starts = [at for at, name in enumerate(self.names) if name == "time"]
        for placement, start, end in zip(self.placements, starts, [*starts[1:], len(self.names)], strict=False):
            named = {name.lstrip("#"): at for at, name in enumerate(self.names[start:end], start)}
            cells = {name: fields[at] if at < len(fields) else None for name, at in named.items()}
            if placement and parse_decimal(cells["time"] or "") is None:
                continue  # what a test cannot do in place
            if cells["busbw"] is None:  # the line was cut, perhaps within the time
                cells["time"] = None
            self.output.add(self.run, where, whole_of(where, "size", fields[0]), placement, cells)


def whole_of(where: str, name: str, text: object) -> int:
    """A whole number, 0 or more, of a file."""
    value = parse_whole(str(text))
    if value is None or value < 0:
        raise ConfigError(f"{where}: {name} is {describe(text)}, expected a whole number")
    return value


def _ranks(where: str, name: str, value: object) -> int:
    count = whole_of(where, name, value)
    if not 0 < count <= _MOST_GPUS:
        raise ConfigError(f"{where}: {name} is {count}, expected 1 to {_MOST_GPUS:,}")
    return count


def _read_json(output: TestOutput, where: str, value: dict[str, Any] | list[dict[str, Any]]) -> bool:
    """Take the results of a JSON value; whether it has any."""
    if isinstance(value, list):
        are_read = [_read_json(output, f"{where}: [{at}]", entry) for at, entry in enumerate(value)]
        return any(are_read)
    for key, read in (("results", _read_nccl), ("benchmark", _read_benchmark), ("busBw", _read_rccl)):
        if key in value:
            read(output, where, value)
            return True
    return False


def _cells(entry: Mapping[str, Any], **keys: str) -> dict[str, str | None]:
    """Cells of an entry by name, as they are written."""
    return {name: None if entry.get(key) is None else str(entry[key]) for name, key in keys.items()}


def _read_nccl(output: TestOutput, where: str, value: dict[str, Any]) -> None:
    """What nccl-tests writes with --output_file: one run."""
    arguments = value.get("args") or [output.collective]
    run = _Run.of_program(str(list_value(arguments, f"{where}: args", "words")[0]))
    config = mapping_value(value.get("config", {}), f"{where}: config", "a mapping")
    gpus_of_process = _ranks(where, "nthreads", config.get("nthreads", 1)) * _ranks(where, "ngpus", config.get("ngpus", 1))
    _ranks(where, "GPUs of a process", gpus_of_process)
    devices = list_value(config.get("devices", []), f"{where}: devices", "a list of ranks")
    for at, device in enumerate(devices):  # of each process its first
        entry = mapping_value(device, f"{where}: devices[{at}]", "a mapping")
        first = whole_of(where, "rank", entry.get("rank"))
        run.ranks += [(first + more, str(entry.get("hostname")), str(entry.get("group", ""))) for more in range(gpus_of_process)]
    bounds = mapping_value(value.get("out_of_bounds", {}), f"{where}: out_of_bounds", "a mapping")
    if not run.is_left_out and (bounds.get("count") or str(bounds.get("okay", "true")).lower() == "false"):
        raise ConfigError(f"{where}: {bounds.get('count')} sizes have wrong results (out_of_bounds), expected 0")
    for at, result in enumerate(list_value(value["results"], f"{where}: results", "a list")):
        place = f"{where}: results[{at}]"
        row = mapping_value(result, place, "a mapping")
        size = whole_of(place, "size", row.get("size"))
        for key, placement in (("out_of_place", False), ("in_place", True)):
            if row.get(key) is None:
                continue
            entry = mapping_value(row[key], f"{place}.{key}", "a mapping")
            if "cpu_time" in entry:
                raise ConfigError(f"{place}.{key}: cpu_time, {_OF_LAUNCH}")
            cells = _cells(entry, time="time", algbw="alg_bw", busbw="bus_bw", wrong="nwrong")
            output.add(run, f"{place}.{key}", size, placement, cells)


def _read_benchmark(output: TestOutput, where: str, value: dict[str, Any]) -> None:
    """What former versions of nccl-tests write: times by size, without the test and its ranks."""
    run = _Run(output.collective)
    for at, entry in enumerate(list_value(value["benchmark"], f"{where}: benchmark", "a list")):
        for size, row in mapping_value(entry, f"{where}: benchmark[{at}]", "a mapping").items():
            place = f"{where}: benchmark[{at}].{size}"
            cells = mapping_value(row, place, "a mapping")
            for prefix, placement in (("oop", False), ("ip", True)):
                if f"{prefix}_time" in cells:
                    keys = {"algbw": f"{prefix}_algbw", "busbw": f"{prefix}_busbw", "wrong": f"{prefix}_error"}
                    named = _cells(cells, time=f"{prefix}_time", **keys)
                    output.add(run, place, whole_of(place, "size", size), placement, named)


def _read_rccl(output: TestOutput, where: str, value: dict[str, Any]) -> None:
    """A line that rccl-tests writes with --output_format json; without MPI it has `gpus` in place of ranks."""
    run = _Run(str(value.get("name") or output.collective))
    gpus_of_rank = _ranks(where, "gpusPerRank", value.get("gpusPerRank", value.get("gpus", 1)))
    ranks = _ranks(where, "GPUs", _ranks(where, "ranks", value.get("ranks", 1)) * gpus_of_rank)
    nodes = _ranks(where, "nodes", value.get("nodes", 1))
    if ranks % nodes:
        raise ConfigError(f"{where}: {ranks} GPUs on {nodes} nodes, expected as many on each")
    if output.shape is None or output.shape[0] * output.shape[1] != ranks:
        run.ranks = [(rank, str(rank * nodes // ranks), "") for rank in range(ranks)]
        of_each = f"{nodes} nodes of {ranks // nodes} GPUs" if nodes > 1 else f"one node of {ranks} GPUs"
        remark = f"rccl-tests says {of_each}; current versions count all ranks as one node: --network says others"
        if remark not in output.remarks:
            output.remarks.append(remark)
    placement: Placement = {"0": False, "1": True}.get(str(value.get("inPlace")))
    cells = _cells(value, time="time", algbw="algBw", busbw="busBw", wrong="wrong")
    output.add(run, where, whole_of(where, "size", value.get("size")), placement, cells)
