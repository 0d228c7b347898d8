"""`astra-tacos fabric`: graphs with devices that forward, made by kind, read from other tools' files, and written for them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astra_tacos.cli.console import print_json, print_rows
from astra_tacos.cli.options import json_option
from astra_tacos.errors import ConfigError
from astra_tacos.fabric.kinds import KINDS, FabricKind

if TYPE_CHECKING:
    from astra_tacos.config.network import NetworkConfig

_OWN = {"network.yml", "links.csv", "nodes.csv"}

_output_option = click.option(
    "--output", "-o", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Write network.yml and its tables here."
)


@click.group()
def fabric() -> None:
    """Make, read and write graphs of NPUs, switches and other devices that forward.

    DIR gets network.yml, links.csv and nodes.csv: `astra-tacos synthesize --network DIR/network.yml` takes them.
    """


@fabric.command("read")
@click.argument("path", type=click.Path(path_type=Path))
@_output_option
@click.option("--latency", type=float, default=500.0, show_default=True, metavar="NS", help="Of links whose file gives none.")
@click.option(
    "--cpu-bandwidth",
    type=float,
    default=32.0,
    show_default=True,
    metavar="GB/s",
    help="Between two CPUs of NCCL's file, which does not say it.",
)
@json_option
def read(path: Path, output: Path, latency: float, cpu_bandwidth: float, as_json: bool) -> None:
    """Read PATH: ns-3's physical topology (.txt), NCCL's topology (.xml), InfraGraph or a network (.yml, .yaml)."""
    from astra_tacos.fabric.reading import read_fabric

    if not math.isfinite(latency) or latency < 0:
        raise ConfigError(f"--latency: found {latency}, expected a number of 0 or more")
    if not math.isfinite(cpu_bandwidth) or cpu_bandwidth <= 0:
        raise ConfigError(f"--cpu-bandwidth: found {cpu_bandwidth}, expected a number above 0")
    what, network = read_fabric(path, latency, cpu_bandwidth)
    _write(network, output, {"read": str(path), "kind": what}, as_json)


@fabric.command("write")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Write ns-3's topology here."
)
@json_option
def write(path: Path, output: Path, as_json: bool) -> None:
    """Write the network PATH as ns-3's physical topology."""
    from astra_tacos.config.network import read_network
    from astra_tacos.fabric.ns3_topology import ns3_topology_text
    from astra_tacos.files import check_writable, replaced_file
    from astra_tacos.topology.composition import build_topology

    check_writable(output)
    network = read_network(path)
    build_topology(network, may_forward=True)
    text = ns3_topology_text(network)
    with replaced_file(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    result: dict[str, Any] = {"network": str(path), "output": str(output), "links": len(network.links) // 2}
    print_json(result) if as_json else print_rows((key, str(value)) for key, value in result.items())


def _command(name: str, kind: FabricKind) -> click.Command:
    def make(output: Path, as_json: bool, reducing: bool, **values: Any) -> None:
        from astra_tacos.fabric.kinds import make_fabric, with_reducing_switches

        network = make_fabric(name, **values)
        _write(with_reducing_switches(network) if reducing else network, output, {"kind": name}, as_json)

    command = json_option(_output_option(make))
    command = click.option("--reducing", is_flag=True, help="Let all switches add and copy (SHARP, NVLS, SwitchML).")(command)
    for parameter, (default, help_text) in reversed(list(kind.parameters.items())):
        option = f"--{parameter.replace('_', '-')}"
        command = click.option(
            option, parameter, type=int if isinstance(default, int) else float, default=default, show_default=True, help=help_text
        )(command)
    return click.command(name, help=f"{kind.summary[0].upper()}{kind.summary[1:]}.")(command)


for _name, _kind in KINDS.items():
    fabric.add_command(_command(_name, _kind))


def _write(network: NetworkConfig, output: Path, about: dict[str, Any], as_json: bool) -> None:
    from astra_tacos.config.network_yaml import write_network
    from astra_tacos.files import check_replaceable, replaced_directory
    from astra_tacos.topology.composition import build_topology

    check_replaceable(output, "network directory of astra_tacos", lambda names: names <= _OWN)
    topology = build_topology(network, may_forward=True)
    with replaced_directory(output) as directory:
        write_network(network, directory / "network.yml")
    shape = {"npus": topology.num_endpoints, "forwarding": len(topology.forwarding), "links": topology.num_links}
    result = {**about, **shape, "network": str(output / "network.yml")}
    if as_json:
        print_json(result)
        return
    print_rows([(key, f"{value:,}" if isinstance(value, int) else str(value)) for key, value in result.items()])
