"""What is not a file of reasonable size is refused at once, whatever reads it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from astra_tacos.network.network_config import read_network
from astra_tacos.run.groups import read_communicator_groups
from astra_tacos.run.system import read_system
from astra_tacos.run.trace.scan import read_file
from astra_tacos.support.errors import ConfigError
from astra_tacos.support.input_file import open_regular, read_bounded
from astra_tacos.verifier.msccl_file import read_msccl_xml


def test_a_pipe_that_nobody_writes_is_empty(tmp_path):
    os.mkfifo(tmp_path / "pipe.yml")
    with pytest.raises(ConfigError, match="file is empty"):
        read_network(tmp_path / "pipe.yml")
    with pytest.raises(ConfigError, match="is a pipe, expected a trace"), open_regular(tmp_path / "pipe.yml", "a trace"):
        pass


def test_a_pipe_is_read_to_its_end(tmp_path):
    pipe, content = tmp_path / "pipe", b"x" * 200_000
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert read_bounded(pipe, 200_000, "x") == content
    writer.join()


def test_a_pipe_without_end_is_left(tmp_path):
    ends = os.pipe()
    os.set_blocking(ends[1], False)
    os.write(ends[1], b"x" * 60_000)
    with pytest.raises(ConfigError, match="file is larger than 50000 bytes, expected x"):
        read_bounded(Path(f"/dev/fd/{ends[0]}"), 50_000, "x")
    for end in ends:
        os.close(end)


def read_trace(path):
    read_file(path, 16)


@pytest.mark.parametrize("read", [read_network, read_system, read_communicator_groups, read_trace, read_msccl_xml])
def test_a_sparse_file_of_100_gb_is_refused(tmp_path, read):
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(100 << 30)
    with pytest.raises(ConfigError, match="huge: file is larger than"):
        read(path)


@pytest.mark.parametrize("read", [read_network, read_system, read_communicator_groups, read_trace, read_msccl_xml])
def test_devices_and_pipes_get_one_line(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    for path, expected in (("/dev/zero", "is a device"), (tmp_path / "pipe", "pipe"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError, match=expected):
            read(Path(path))


def test_a_table_of_links_may_not_be_a_device(tmp_path):
    (tmp_path / "net.yml").write_text("astra_tacos: {links: /dev/zero}")
    with pytest.raises(ConfigError, match="/dev/zero: is a device, expected a text file"):
        read_network(tmp_path / "net.yml")


def test_a_file_of_the_limit_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bounded(tmp_path / "a", 5, "x") == b"12345"
    with pytest.raises(ConfigError, match="larger than 4 bytes"):
        read_bounded(tmp_path / "a", 4, "x")


@pytest.mark.parametrize(("name", "expected"), [("none", "No such file"), ("a\0b", "null byte"), ("x" * 300, "too long")])
def test_names_that_cannot_be_opened(tmp_path, name, expected):
    with pytest.raises(ConfigError, match=expected):
        read_bounded(tmp_path / name, 5, "x")
