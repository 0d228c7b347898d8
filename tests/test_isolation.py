"""Tests see nothing of the machine that they run on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from helpers.isolation import isolated

from astra_tacos.planner.synthesis_cache import default_cache


def test_home_cache_and_astra_sim_are_not_those_of_the_user(tmp_path):
    user, binaries, home = tmp_path / "user", tmp_path / "bin", tmp_path / "home"
    for folder in (user / ".cache" / "matplotlib", binaries, home):
        folder.mkdir(parents=True)
    for name in ("AstraSim_Analytical_Congestion_Aware", "git"):
        (binaries / name).touch(0o755)
    given = {"HOME": str(user), "PATH": f"{binaries}{os.pathsep}/usr/bin", "ASTRA_SIM_BIN": "x", "DASK_TEMPORARY_DIRECTORY": "y"}
    found = isolated(given | {"LANG": "C", "XDG_CACHE_HOME": ""}, home)
    assert found["HOME"] == str(home)
    assert found["LANG"] == "C"
    assert found["MPLCONFIGDIR"] == str(user / ".cache" / "matplotlib")
    assert set(found) == {"HOME", "PATH", "LANG", "MPLCONFIGDIR", "DASK_CONFIG"}
    assert shutil.which("AstraSim_Analytical_Congestion_Aware", path=found["PATH"]) is None
    assert shutil.which("git", path=found["PATH"]) is not None


def test_so_is_this_process():
    assert default_cache().is_relative_to(os.environ["HOME"])
    assert Path.home().name.startswith("astra_tacos_home.")
    assert "ASTRA_SIM_BIN" not in os.environ
    assert shutil.which("AstraSim_Analytical_Congestion_Aware") is None
