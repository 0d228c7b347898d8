"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from astra_tacos.errors import ConfigError
from astra_tacos.units import parse_size

network_option = click.option(
    "--network", "network_path", type=click.Path(path_type=Path), metavar="FILE", help="Network YAML, as ASTRA-sim reads it."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A size in bytes: `64MiB`, `1GB`, `4096`."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_size(str(value))
        except ConfigError as error:
            return self.fail(str(error), param, ctx)
