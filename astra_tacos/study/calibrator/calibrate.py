"""`calibrate`: from files of measured times to the constants of a machine, or to the errors of those constants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_tacos.solver.first_use import PROGRAMS, READING, REPLAYING, Progress, compile_ahead, silent
from astra_tacos.study.calibrator import answers
from astra_tacos.study.calibrator.calibration import calibrate_machine, calibrate_ns3
from astra_tacos.study.calibrator.collective_times import Reading
from astra_tacos.study.calibrator.collectives import calibrate_collectives, check_collectives
from astra_tacos.study.calibrator.nccl_tests import COLLECTIVES
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.quoted import quoted
from astra_tacos.support.rows import Answer, Result, Row, Table

PLACES = {"in": True, "out": False}
"""By name, whether buffers are in place."""
_LEAST_BYTES = 64 << 10
"""The smallest size that counts for programs."""
_NOT_FIGURES = ("is_fitted", "text")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Calibration(Result):
    """Constants of a machine that fit measured times, or the errors of a calibration on other times.

    Parameters
    ----------
    figures
        The object that `calibrate --json` prints.
    is_good
        Whether the constants fit, and whether errors are within the limit that was given.
    output
        The directory that was written; None for none.

    Examples
    --------
    >>> from astra_tacos import calibrate
    >>> calibration = calibrate(["configs/measured/two_nodes.log"])
    >>> calibration.is_good, sorted(calibration.figures["errors"])
    (True, ['count', 'median', 'p90', 'worst'])
    """

    figures: dict[str, Any]
    is_good: bool
    output: Path | None
    _answer: Answer

    def to_json(self) -> dict[str, Any]:
        """All figures, ready for JSON."""
        return self.figures

    def title(self) -> str:
        """The machine, and how many times were measured."""
        return self._answer.title()

    def rows(self) -> list[Row]:
        """Errors, and notes on files."""
        return self._answer.rows()

    def tables(self) -> list[Table]:
        """Constants, and errors."""
        return self._answer.tables()


def calibrate(
    files: Iterable[str | Path],
    output: str | Path | None = None,
    *,
    check: str | Path | None = None,
    least_bytes: int | None = None,
    limit: float | None = None,
    where: Mapping[str, str] | None = None,
    collective: str | None = None,
    place: str | None = None,
    network: str | Path | None = None,
    progress: Progress = silent,
) -> Calibration:
    r"""Fit the constants of a machine to measured times of its collectives, and say how far off they are.

    Parameters
    ----------
    files
        Logs of nccl-tests or rccl-tests, or CSV; or pairs of an MSCCL program and its times, or of a run and a log of ns-3.
    output
        Directory to make, with calibration.json and network files; None for none.
    check
        The directory of a calibration, which is compared with the files; None to fit.
    least_bytes
        Smallest size that counts, for programs (None: 64 KiB) and for `check`.
    limit
        Largest median error of `check` in percent, for `is_good`; None for none.
    where
        Values of columns: other rows of CSV files do not count.
    collective
        What files measured that do not say it.
    place
        `in` or `out`: take only times in place, or out of place; None for both.
    network
        A network that says the shape of the machine; for runs, the network of all of them.

    Raises
    ------
    ConfigError
        If a file is not what it should be, or an argument is for another kind of files.

    Examples
    --------
    >>> from pathlib import Path
    >>> from astra_tacos import calibrate
    >>> sizes = [1 << power for power in range(12, 28)]
    >>> lines = [f"all-reduce,{size},{20 + size / 150e3:.3f},1,8" for size in sizes]
    >>> _ = Path("times.csv").write_text("\n".join(["collective,size_bytes,time_us,nodes,gpus_per_node", *lines]))
    >>> calibration = calibrate(["times.csv"])
    >>> calibration.is_good, calibration.figures["times"]
    (True, 16)
    """
    paths = [Path(path) for path in files]
    if not paths:
        raise ConfigError("files: found none, expected one or more")
    output = None if output is None else Path(output)
    if output is not None and output.exists():
        raise ConfigError(f"{output}: exists, expected a directory to be made")
    network = None if network is None else Path(network)
    if any(path.suffix == ".xml" or path.is_dir() for path in paths):
        given = {"check": check, "limit": limit, "where": where or None, "collective": collective, "place": place}
        if measured := [name for name, value in given.items() if value is not None]:
            raise ConfigError(f"{measured[0]}: is for times of collectives, found programs or runs")
        result, answer = _of_pairs(paths, least_bytes, network, output, progress)
    else:
        reading = Reading(where=where or {}, collective=_collective(collective), place=_place(place))
        if check is None:
            if limit is not None or least_bytes:
                raise ConfigError(f"{'from' if limit is None else 'limit'}: is for a check and for programs, found a fit")
            result, answer = calibrate_collectives(paths, network, reading, output, progress), answers.of_collectives
        elif output is not None or network is not None:
            raise ConfigError(
                f"{'network' if output is None else 'output'}: is for fits, found a check, whose directory has both"
            )
        else:
            errors = check_collectives(Path(check), paths, reading, least_bytes or 0)
            is_within = limit is None or errors["median"] <= limit / 100
            result, answer = {**errors, "limit": limit, "is_within": is_within}, answers.of_check
    is_good = bool(result.get("is_fitted", True) and result.get("is_within", True))
    figures = {key: value for key, value in result.items() if key not in _NOT_FIGURES}
    written = result.get("output")
    return Calibration(figures, is_good, None if written is None else Path(written), answer(result))


def _of_pairs(
    paths: list[Path], least_bytes: int | None, network: Path | None, output: Path | None, progress: Progress
) -> tuple[dict[str, Any], Callable[[dict[str, Any]], Answer]]:
    """Fit pairs of programs, or of run directories, and times."""
    if len(paths) % 2:
        raise ConfigError(f"files: found {len(paths)}, expected pairs: a program or a run, and its measured times")
    are_runs = {path.is_dir() for path in paths[::2]}
    if len(are_runs) > 1:
        raise ConfigError("files: found programs and run directories, expected one kind of them")
    pairs = list(zip(paths[::2], paths[1::2], strict=True))
    if are_runs == {True}:
        compile_ahead(*READING, *REPLAYING, progress=progress)
        return calibrate_ns3(pairs, network, output, progress), answers.of_ns3
    if network is not None:
        raise ConfigError("network: is for run directories, found programs, which have no network")
    compile_ahead(*PROGRAMS, progress=progress)
    least = _LEAST_BYTES if least_bytes is None else least_bytes
    return calibrate_machine(pairs, least, output, progress), answers.of_programs


def _collective(name: str | None) -> str | None:
    if name is not None and name not in COLLECTIVES:
        raise ConfigError(f"collective: found {quoted(name)}, expected one of {', '.join(COLLECTIVES)}")
    return name


def _place(name: str | None) -> bool | None:
    if name is not None and name not in PLACES:
        raise ConfigError(f"place: found {quoted(name)}, expected one of {', '.join(PLACES)}")
    return None if name is None else PLACES[name]
