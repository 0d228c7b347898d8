"""The directory that `replay --output` writes: figures, and the recording that a report is made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astra_tacos.files import check_replaceable, replaced_directory, write_json
from astra_tacos.run.outcome import RunOutcome
from astra_tacos.run.recorded_run import record_run
from astra_tacos.run.recording import REPLAY_FILE, save_recording
from astra_tacos.run.run import Run

RESULT_FILE = "replay.json"


def check_replay_directory(path: Path) -> None:
    """Check, before the work, that a replay may be written to `path`.

    Raises
    ------
    ConfigError
        If anything but a replay is there.
    """
    check_replaceable(path, "replay of astra_tacos", _is_own)


def _is_own(names: set[str]) -> bool:
    return not names or {RESULT_FILE} <= names <= {RESULT_FILE, REPLAY_FILE}


def write_replay_directory(path: Path, result: dict[str, Any], run: Run, outcome: RunOutcome) -> None:
    """Write `replay.json`, the object that `--json` prints, and `replay.npz`.

    Parameters
    ----------
    path
        Directory to write.
    result
        The figures.
    run
        The run.
    outcome
        What its replay observed.
    """
    with replaced_directory(path) as folder:
        write_json(folder / RESULT_FILE, result)
        save_recording(record_run(run, outcome), folder / REPLAY_FILE)
