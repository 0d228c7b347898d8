"""Archives that anybody may have made or damaged: one line each, and never more memory than their size allows."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.damage import ANY_BYTES, damages
from helpers.networks import topology
from helpers.recordings import random_recording
from helpers.schedules import schedule
from hypothesis import given
from hypothesis import strategies as st

from astra_tacos.run.recording import load_recording, save_recording
from astra_tacos.schedule.storage import load_schedule, save_schedule
from astra_tacos.support import archive
from astra_tacos.support.archive import MOST_INFLATION, most_bytes, write_archive
from astra_tacos.support.errors import ConfigError

Load = Callable[[Path], object]


def check_one_line(load, path):
    """What cannot be read is one line that names it."""
    try:
        load(path)
    except ConfigError as error:
        assert str(error).startswith(str(path)), error
        assert "\n" not in str(error)


def refusal(load, path):
    with pytest.raises(ConfigError) as caught:
        load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and "\n" not in text
    return text


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder with a schedule and a recording."""
    folder = tmp_path_factory.mktemp("good")
    save_schedule(schedule(topology("ring8")), folder / "schedule.npz")
    save_recording(random_recording(3, 4, both=True), folder / "replay.npz")
    return folder


LOADS: dict[str, Load] = {"schedule.npz": load_schedule, "replay.npz": load_recording}


@pytest.mark.parametrize("name", LOADS)
@given(damage=damages())
@ANY_BYTES
def test_any_damage_is_one_line(good, tmp_path, name, damage):
    (tmp_path / name).write_bytes(damage((good / name).read_bytes()))
    check_one_line(LOADS[name], tmp_path / name)


@pytest.mark.parametrize("name", LOADS)
@given(damage=damages(), which=st.integers(0, 30))
@ANY_BYTES
def test_any_damage_under_a_sound_checksum_is_one_line(good, tmp_path, name, damage, which):
    """In the arrays, as somebody would have changed them who writes a sound archive."""
    with zipfile.ZipFile(good / name) as whole, zipfile.ZipFile(tmp_path / name, "w") as changed:
        names = whole.namelist()
        for entry in names:
            content = whole.read(entry)
            changed.writestr(entry, damage(content) if entry == names[which % len(names)] else content)
    check_one_line(LOADS[name], tmp_path / name)


def with_header(good, tmp_path, change):
    arrays = dict(np.load(good / "schedule.npz"))
    np.savez(tmp_path / "s.npz", **arrays | {"header": np.array(change(str(arrays["header"])))})
    return tmp_path / "s.npz"


def test_an_encrypted_archive(good, tmp_path):
    content = bytearray((good / "schedule.npz").read_bytes())
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    (tmp_path / "s.npz").write_bytes(content)
    assert "is encrypted" in refusal(load_schedule, tmp_path / "s.npz")


def test_deep_nesting_in_the_header(good, tmp_path):
    assert "nested too deeply" in refusal(load_schedule, with_header(good, tmp_path, lambda text: "[" * 100_000))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, 10**40) for name in ("num_npus", "num_switches", "size_bytes", "chunks_per_npu", "root", "seed")),
        ("reduce_bandwidth_gbps", 10**400),
        ("chunks_per_npu", 1 << 26),
        ("num_npus", 1_000_000),
        ("num_switches", 60_000_000),
        ("collective", ["all-reduce"]),
        ("dimensions", [["Ring", 8, 10**400, 0]]),
        ("dimensions", 3),
        ("members", [0, 10**40]),
        ("link_model", {}),
        ("network", None),
        ("seed", "0"),
    ],
)
def test_values_that_no_schedule_has(good, tmp_path, name, value):
    path = with_header(good, tmp_path, lambda text: json.dumps(json.loads(text) | {name: value}))
    refusal(load_schedule, path)


def test_what_is_declared_is_bounded_before_it_is_read(tmp_path):
    """Three thousand million zeros in 2.9 MB, as deflate writes them."""
    path, size = tmp_path / "bomb.npz", 1 << 20
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("chunk.npy", bytes(size))
    content = bytearray(path.read_bytes())
    compressed = content[30 + len("chunk.npy") : content.index(b"PK\x01\x02")]
    assert len(compressed) * MOST_INFLATION < size  # more than an archive may
    at = content.index(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", 3_000_000_000)
    path.write_bytes(content)
    assert f"it declares 3,000,000,000 bytes in a file of {len(content):,}" in refusal(load_schedule, path)


def test_the_header_of_an_array_may_not_declare_more_than_its_entry(good, tmp_path):
    arrays = dict(np.load(good / "schedule.npz"))
    real = repr(arrays["chunk"].shape)
    python_2 = real.replace(",", "L,")
    shapes = [("<i4", shape) for shape in ("(30000000000,)", "(10, 10)", "(9)" * 20, "()", "(" * 90, "(-1,)", python_2)]
    for kind, shape in (*shapes, ("|O", real), (">i4", real), ("<i4,<i4", real), ("<i4", real + " " * 2000)):
        with zipfile.ZipFile(tmp_path / "s.npz", "w") as opened:
            for name, array in arrays.items():
                stream = io.BytesIO()
                np.lib.format.write_array(stream, array, (1, 0))
                content = stream.getvalue()
                if name == "chunk":
                    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
                    text = text.ljust(118 - 1) + b"\n"
                    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content[128:]
                opened.writestr(f"{name}.npy", content)
        refusal(load_schedule, tmp_path / "s.npz")


def test_what_is_no_file_is_not_read_without_end(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    for path, what in ((tmp_path / "pipe.npz", "pipe"), (Path("/dev/zero"), "device")):
        assert f"is a {what}, expected a schedule of astra_tacos" in refusal(load_schedule, path)


def test_what_is_written_can_be_read(tmp_path, monkeypatch):
    """Also if it is more regular than any archive of its size may be."""
    monkeypatch.setattr(archive, "ALWAYS_ALLOWED_BYTES", 1 << 10)
    zeros = np.zeros(1 << 20, np.uint8)
    write_archive(tmp_path / "a.npz", np.array("{}"), {"zeros": zeros})
    assert zeros.nbytes < most_bytes((tmp_path / "a.npz").stat().st_size)
    assert np.load(tmp_path / "a.npz")["zeros"].nbytes == zeros.nbytes
