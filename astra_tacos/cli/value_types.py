"""Types of values on the command line: sizes, numbers, names of synthesizers, budgets."""

from __future__ import annotations

import click

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import parse_size, parse_sizes

_MOST = 100_000
"""Numbers in a list."""


class Size(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """A size in bytes: `64MiB`, `1GB`, `4096`."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """A size in bytes; see `click.ParamType`."""
        if isinstance(value, int):
            return value
        try:
            return parse_size(str(value))
        except ConfigError as error:
            return self.fail(str(error), param, ctx)


class Counts(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """`1,2,8`, or `0:4` for all from the first up to, and with, the last; several with commas between them, each once."""

    name = "numbers"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Ascending whole numbers, 0 or more; see `click.ParamType`."""
        if isinstance(value, tuple):
            return value
        found: set[int] = set()
        for part in str(value).split(","):
            ends = [end.strip() for end in part.split(":")]
            if len(ends) > 2 or not all(end.isascii() and end.isdigit() and len(end) <= 9 for end in ends):
                self.fail(f"found {str(value)[:60]!r}, expected numbers such as 1,2,8 or 0:4", param, ctx)
            first, last = int(ends[0]), int(ends[-1])
            if last < first or last - first >= _MOST:
                self.fail(f"found {part.strip()!r}, expected up to {_MOST:,} numbers from the lower to the higher", param, ctx)
            if not found.isdisjoint(own := range(first, last + 1)):
                self.fail(f"found {part.strip()!r} after the same number, expected each number once", param, ctx)
            found |= set(own)
        return tuple(sorted(found))


class AutoOr(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """`auto`, or a whole number from 1 on."""

    name = "auto|N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """`auto` or a positive number; see `click.ParamType`."""
        return "auto" if value == "auto" else click.IntRange(1).convert(value, param, ctx)  # type: ignore[arg-type]


class Budget(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """Sends examined: `20M`, or as many as count as `10s`."""

    name = "budget"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """A budget in units of work; see `click.ParamType`."""
        if isinstance(value, int):
            return value
        from astra_tacos.synthesizer.work import parse_budget

        try:
            return parse_budget(str(value))
        except ConfigError as error:
            return self.fail(str(error), param, ctx)


class Sizes(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """`64KiB,1MiB`, or `64KiB:1GiB` for every size from the first on, four times larger each, up to the second."""

    name = "sizes"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Sizes in bytes; see `click.ParamType`."""
        try:
            return parse_sizes(str(value))
        except ConfigError as error:
            return self.fail(str(error), param, ctx)


class Names(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """Names of synthesizers with commas between them, `auto` among them."""

    name = "names"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Names of synthesizers, without repetitions; see `click.ParamType`."""
        if isinstance(value, tuple):
            return value
        from astra_tacos.synthesizer import AUTO, SYNTHESIZERS

        names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",")))
        for name in names:
            if name not in (AUTO, *SYNTHESIZERS):
                self.fail(f"found {name!r}, expected names out of {', '.join((AUTO, *SYNTHESIZERS))}", param, ctx)
        return names


class Instance(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic since click 8.2
    """`6,3,7`: chunks, steps and rounds."""

    name = "C,S,R"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int, int]:
        """Three whole numbers; see `click.ParamType`."""
        if isinstance(value, tuple):
            return value
        parts = str(value).split(",")
        if len(parts) != 3 or not all(part.strip().isdecimal() and 0 < int(part) < 1000 for part in parts):
            self.fail(f"found {value!r}, expected chunks, steps and rounds, like 6,3,7", param, ctx)
        chunks, steps, rounds = map(int, parts)
        return chunks, steps, rounds
