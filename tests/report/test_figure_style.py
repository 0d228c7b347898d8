"""Figures as files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from astra_tacos import ConfigError
from astra_tacos.report.figure.figure_style import FORMATS, save_figure


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_full_disk_is_one_error_in_every_format(suffix: str, tmp_path: Path) -> None:
    """Whichever error matplotlib makes of it."""
    from matplotlib.figure import Figure

    def draw() -> Figure:
        figure = Figure()
        figure.add_subplot().imshow(np.random.default_rng(1).random((300, 300)), interpolation="none")
        return figure

    full = tmp_path / f"figure{suffix}"
    full.symlink_to("/dev/full")
    with pytest.raises(ConfigError, match=r"cannot be written \(No space left on device\)"):
        save_figure(full, draw)
