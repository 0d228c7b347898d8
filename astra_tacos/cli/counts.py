"""Lists of numbers and ids on the command line: `1,2,8` or `0:4`."""

from __future__ import annotations

import click

_MOST = 100_000


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
