"""The pages of docs/fabrics: one for each kind, with the numbers of its default network, commands that run, and a drawing."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.schedules import bound_of
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from astra_tacos.cli.main import cli
from astra_tacos.collective import make_collective
from astra_tacos.network.composition import build_topology
from astra_tacos.network.fabric.kinds import KINDS, make_fabric

DOCS = Path(__file__).parents[2] / "docs"
GIB = 1 << 30


def test_every_kind_has_its_page():
    assert {path.stem for path in (DOCS / "fabrics").glob("*.md")} == set(KINDS)
    listed = re.findall(r"\(fabrics/([a-z0-9-]+)\.md\)", (DOCS / "fabrics.md").read_text(encoding="utf-8"))
    assert set(listed) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_of_the_page_are_those_of_the_network(kind):
    page = (DOCS / "fabrics" / f"{kind}.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| ([^|`]+) \| ([^|]+) \|$", page, re.MULTILINE))
    topology = build_topology(make_fabric(kind), may_forward=True)
    links = coo_array(
        (np.ones(topology.num_links), (topology.link_src, topology.link_dst)), shape=(topology.num_devices,) * 2
    ).tocsr()
    hops = dijkstra(links, unweighted=True, indices=range(topology.num_endpoints))
    assert table["NPUs"] == f"{topology.num_endpoints:,}"
    assert sum(int(number) for number in re.findall(r"\d+", table["other devices"])) == len(topology.forwarding)
    assert table["links, each way"] == f"{topology.num_links:,}"
    assert table["most links between two NPUs"] == f"{int(hops[:, : topology.num_endpoints].max())}"
    for name in ("all-gather", "all-reduce", "all-to-all"):
        size = GIB // topology.num_endpoints if name == "all-gather" else GIB
        what = make_collective(name, topology.num_npus, size, 1, members=topology.endpoints)
        bound = bound_of(topology, what)
        assert table[f"{name} of 1 GiB: at least"] == f"{bound.time_ns / 1e3:,.0f} us ({bound.name})"
    for name, (default, meaning) in KINDS[kind].parameters.items():
        assert f"| `--{name.replace('_', '-')}` | {default:g} | {meaning} |" in page


@pytest.mark.parametrize("kind", KINDS)
def test_the_commands_of_the_page_draw_its_picture(kind, tmp_path):
    page = (DOCS / "fabrics" / f"{kind}.md").read_text(encoding="utf-8")
    with contextlib.chdir(tmp_path):
        for line in re.findall(r"^    astra-tacos (.*)$", page, re.MULTILINE):
            done = CliRunner().invoke(cli, shlex.split(line))
            assert done.exit_code == 0, (line, done.output)
    (name,) = re.findall(r"\(\.\./images/(\S+)\)", page)
    for folder in (tmp_path, DOCS / "images"):
        assert (folder / name).stat().st_size > 2_000
