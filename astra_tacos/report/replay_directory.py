"""The directory that `replay --output` writes: the figures, and the recording from which a report is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astra_tacos.run.recording import REPLAY_FILE, Recording, save_recording
from astra_tacos.support.files import check_replaceable, replaced_directory, write_json

RESULT_FILE = "replay.json"


def check_replay_directory(path: Path) -> None:
    """Check, before the replay runs, that its output may be written to `path`.

    Raises
    ------
    ConfigError
        If `path` exists and is not an earlier output of a replay.
    """
    check_replaceable(path, "replay of astra_tacos", _is_own)


def _is_own(names: set[str]) -> bool:
    return names in (set(), {RESULT_FILE, REPLAY_FILE})


def write_replay_directory(path: Path, result: dict[str, Any], recording: Recording) -> None:
    """Write `replay.json`, which has the object that `--json` prints, and `replay.npz`.

    Parameters
    ----------
    path
        Directory to write.
    result
        The figures, as `run_result` returns them.
    recording
        The recording of the replay.
    """
    with replaced_directory(path) as folder:
        write_json(folder / RESULT_FILE, result)
        save_recording(recording, folder / REPLAY_FILE)
