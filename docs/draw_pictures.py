"""Draws the pictures of the documentation: python docs/draw_pictures.py (needs matplotlib, which the package does not)."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PolyCollection

from astra_tacos import all_reduce, build_topology, read_network, synthesize

HERE = Path(__file__).parent
COLOURS = {True: "#4477aa", False: "#ee6677"}
LABELS = {True: "reduce", False: "copy"}


def draw_timeline() -> None:
    """Every send of an All-Reduce on three kinds of links: one line per link, grouped by dimension."""
    topology = build_topology(read_network(HERE.parent / "configs" / "network" / "hetero_3d_64npus.yml"))
    schedule = synthesize(topology, all_reduce(topology.num_npus, 64 << 20, 4), synthesizer="tacos")
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    up = topology.channel_link[schedule.channel]
    out_of_npu = np.flatnonzero(topology.link_src < topology.num_npus)  # a send through a switch is drawn on its up-link
    line = np.empty(topology.num_links, int)
    line[out_of_npu[np.argsort(topology.link_dimension[out_of_npu], kind="stable")]] = np.arange(len(out_of_npu))
    for reduces in (True, False):
        rows = np.flatnonzero(schedule.reduces == reduces)
        begin, end, at = schedule.start_ns[rows] / 1e3, schedule.end_ns[rows] / 1e3, line[up[rows]]
        boxes = np.stack((begin, at, begin, at + 0.85, end, at + 0.85, end, at), axis=1).reshape(-1, 4, 2)
        style = {"facecolors": COLOURS[reduces], "edgecolors": "none", "label": LABELS[reduces]}
        axes.add_collection(PolyCollection(boxes, rasterized=True, **style))
    first = 0
    for index, dimension in enumerate(topology.dimensions):
        count = int(np.sum(topology.link_dimension[out_of_npu] == index))
        text = f"{dimension.block} {dimension.size}\n{dimension.bandwidth_gibps:g} GB/s"
        axes.text(-8, first + count / 2, text, ha="right", va="center", fontsize=9)
        first += count
        axes.axhline(first, color="black", linewidth=0.6)
    axes.set(xlim=(0, schedule.collective_time_ns / 1e3), ylim=(first, 0), yticks=[], xlabel="time (us)")
    axes.set_title("All-Reduce of 64 MiB on 64 NPUs, one line per link", fontsize=11)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, -0.28), ncols=2, frameon=False)
    figure.savefig(HERE / "images" / "timeline.svg", dpi=200, metadata={"Date": None})


if __name__ == "__main__":
    plt.rcParams["svg.hashsalt"] = "astra_tacos"
    draw_timeline()
