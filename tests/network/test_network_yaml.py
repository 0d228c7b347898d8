"""Networks are written so that they are read back as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from astra_tacos.network.network_config import Dimension, LinkSpec, NetworkConfig, read_network, write_network
from astra_tacos.support.errors import ConfigError

_STOCK = (Dimension("Ring", 4, 0.1 + 0.2, 500.0), Dimension("Switch", 2, 50.0, 1e-3))
_NETWORKS = (
    NetworkConfig("", _STOCK),
    NetworkConfig("", _STOCK, error=0.0625),
    NetworkConfig("", (Dimension("Mesh", 3, 50.0, 0.0), *_STOCK)),
    NetworkConfig(
        "", _STOCK, failed_links=((0, 1), (1, 0)), link_overrides=(LinkSpec(1, 2, 12.5, None), LinkSpec(2, 1, None, 7.0))
    ),
    NetworkConfig("", (Dimension("Mesh", 3, 50.0, 0.0), *_STOCK), failed_links=((0, 1),)),
    NetworkConfig("", (), (LinkSpec(0, 1, 1 / 3, 500.0), LinkSpec(1, 0, 5e11, 0.0)), ((0, 1),), (LinkSpec(1, 0, 2.5, 1.5),)),
)


@pytest.mark.parametrize("network", _NETWORKS)
def test_a_network_is_read_back_as_it_was(network: NetworkConfig, tmp_path: Path) -> None:
    path = tmp_path / "network.yml"
    write_network(network, path)
    assert read_network(path) == replace(network, source=str(path))


@pytest.mark.parametrize("error", ["0", "-0.1", "six", "[ 0.1 ]"])
def test_an_error_is_a_share(error: str, tmp_path: Path) -> None:
    path = tmp_path / "network.yml"
    write_network(NetworkConfig("", _STOCK), path)
    path.write_text(f"astra_tacos: {{ error: {error} }}\n{path.read_text()}")
    with pytest.raises(ConfigError, match=r"astra_tacos\.error is .*, expected a share like 0\.06"):
        read_network(path)
