"""Where LIBRA's own inputs are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def libra_inputs() -> Path:
    """Directory with the inputs of LIBRA's public code; they are not part of the repository."""
    folder = Path(os.environ.get("ASTRA_TACOS_INPUTS", "")) / "libra_inputs"
    if "ASTRA_TACOS_INPUTS" not in os.environ or not folder.is_dir():
        pytest.skip("NOT TESTED on LIBRA's inputs: set ASTRA_TACOS_INPUTS to a directory that has libra_inputs")
    return folder
