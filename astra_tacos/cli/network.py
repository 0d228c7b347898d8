"""`astra-tacos network`: graphs with devices that forward, made by kind, read from other tools' files, and written for them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.inspect import inspect
from astra_tacos.cli.shared.command import Command
from astra_tacos.cli.shared.console import print_json, print_result
from astra_tacos.cli.shared.options import PATH, SIZE, json_option, output_option
from astra_tacos.network.fabric.host_levels import ALGORITHMS, BANDWIDTH_UNITS, LATENCY_UNITS, read_host_matrix
from astra_tacos.network.fabric.kinds import KINDS, FabricKind, make_fabric, with_reducing_switches
from astra_tacos.support.rows import Answer, Row

if TYPE_CHECKING:
    from astra_tacos.network.network_config import NetworkConfig

_output_option = output_option("Write network.yml and its tables here.", required=True)


@click.group()
def network() -> None:
    """Make, read and write graphs of NPUs, switches and other devices that forward.

    DIR gets network.yml, links.csv and nodes.csv: `astra-tacos synthesize --network DIR/network.yml` takes them.
    """


network.command_class = Command
network.add_command(
    Command("show", params=inspect.params, callback=inspect.callback, help="Show the network PATH, as inspect does.")
)


@network.command("read")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=PATH)
@_output_option
@click.option(
    "--latency", type=float, default=500.0, show_default=True, metavar="NS", help="For links that have none in the file."
)
@click.option(
    "--cpu-bandwidth",
    type=float,
    metavar="GB/s",
    help="Between two CPUs of a host of NCCL's file, which does not say it. [default: what NCCL counts on for these CPUs]",
)
@click.option(
    "--bandwidth",
    type=float,
    metavar="GB/s",
    help="For links of an InfraGraph that have none; without this option such links are refused.",
)
@click.option(
    "--between",
    metavar="SWITCH",
    help="Join the hosts of NCCL's files by a switch, for example 'Switch 50 GB/s 2 us': each network card has a port of this "
    "bandwidth and latency; each GPU, where a host has no network card.",
)
@json_option
def read(
    paths: tuple[Path, ...],
    output: Path,
    latency: float,
    cpu_bandwidth: float | None,
    bandwidth: float | None,
    between: str | None,
    as_json: bool,
) -> None:
    """Read PATH: ns-3's physical topology (.txt), NCCL's topology (.xml), InfraGraph or a network (.yml, .yaml).

    Several .yml and .yaml files, and those of a directory, are one InfraGraph. Several .xml files are hosts of one network, which
    --between joins.
    """
    from astra_tacos.network.fabric.between_hosts import BetweenHosts
    from astra_tacos.network.fabric.files import read_fabric

    kind, network = read_fabric(
        paths[0], latency, cpu_bandwidth, paths[1:], bandwidth, BetweenHosts.parse(between) if between else None
    )
    _write(network, output, {"read": ", ".join(map(str, paths)), "kind": kind}, as_json)


@network.command("write")
@click.argument("path", type=PATH)
@output_option("Write ns-3's topology here.", "FILE", required=True)
@json_option
def write(path: Path, output: Path, as_json: bool) -> None:
    """Write the network PATH as ns-3's physical topology."""
    from astra_tacos.network.fabric.ns3_topology import write_ns3_topology
    from astra_tacos.network.network_config import read_network

    num_links = write_ns3_topology(read_network(path), output)
    result: dict[str, Any] = {"network": str(path), "output": str(output), "links": num_links}
    if as_json:
        print_json(result)
    else:
        print_result(Answer(f"{path} for ns-3", [Row("links", num_links)]), files=[Row("files", str(output))])


@network.command("measured")
@click.option("--latency", type=PATH, required=True, metavar="CSV", help="Latency from row to column.")
@click.option("--latency-unit", type=click.Choice(list(LATENCY_UNITS)), required=True, help="Unit of its entries.")
@click.option("--bandwidth", type=PATH, required=True, metavar="CSV", help="Bandwidth from row to column.")
@click.option("--bandwidth-unit", type=click.Choice(list(BANDWIDTH_UNITS)), required=True, help="Unit of its entries.")
@click.option(
    "--algorithm", type=click.Choice(ALGORITHMS), default="ring", show_default=True, help="Collective that hosts are ordered for."
)
@click.option("--size", type=SIZE, default="1MiB", show_default=True, help="Size of the All-Reduce that they are ordered for.")
@_output_option
@json_option
def measured(algorithm: str, size: int, output: Path, as_json: bool, **files: Any) -> None:
    """Make a network of what was measured between hosts, and put the hosts in the best order for a native algorithm.

    Each CSV is a matrix with names of hosts in the first line and the first column. Hosts that are closer to one another than to
    others become a level, and a dimension of kind Switch. DIR gets hosts.csv, too: which host each NPU is.
    """
    from astra_tacos.network.fabric.measured import MeasuredHosts
    from astra_tacos.pages.csv_table import write_table

    hosts = MeasuredHosts.of(read_host_matrix(**files), algorithm, size)
    table = io.StringIO()
    write_table(table, [("npu", "host"), *enumerate(hosts.hosts)])
    _write(hosts.network, output, hosts.to_json(), as_json, hosts.rows(), {"hosts.csv": table.getvalue()})


def _command(name: str, kind: FabricKind) -> click.Command:
    def make(output: Path, as_json: bool, reducing: bool, **values: Any) -> None:
        network = make_fabric(name, **values)
        _write(with_reducing_switches(network) if reducing else network, output, {"kind": name}, as_json)

    command = json_option(_output_option(make))
    command = click.option("--reducing", is_flag=True, help="Let all switches add and copy (SHARP, NVLS, SwitchML).")(command)
    for parameter, (default, help_text) in reversed(list(kind.parameters.items())):
        option = f"--{parameter.replace('_', '-')}"
        command = click.option(
            option, parameter, type=int if isinstance(default, int) else float, default=default, show_default=True, help=help_text
        )(command)
    return network.command(name, help=f"{kind.summary[0].upper()}{kind.summary[1:]}.")(command)


for _name, _kind in KINDS.items():
    network.add_command(_command(_name, _kind))


def _write(
    network: NetworkConfig,
    output: Path,
    origin: dict[str, Any],
    as_json: bool,
    rows: Iterable[Row] = (),
    tables: dict[str, str] | None = None,
) -> None:
    """Write a network, and print it, with the `rows` that there are to say about it."""
    from astra_tacos.network.fabric.files import write_network_directory

    shape = write_network_directory(network, output, tables or {})
    if as_json:
        print_json(origin | shape)
        return
    title = " ".join(origin.get(key, "") for key in ("kind", "read")).strip() or "network"
    print_result(Answer(title, [*(Row(key, value) for key, value in shape.items()), *rows]))
