"""CSV files with a matrix of sizes: a line for each source, a field for each target; blank lines and `#` lines are skipped."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_tacos.support.errors import ConfigError
from astra_tacos.support.units import parse_size
from astra_tacos.support.yaml_text import describe, read_text

_MOST_ROWS = 4096
_MOST_FILE_BYTES = 1 << 28


def read_matrix(path: Path) -> NDArray[np.int64]:
    """int64[n, n], bytes; fields are sizes such as 0, 4096 or 64KiB.

    Raises
    ------
    ConfigError
        If the file cannot be read, a field is no size, or there are not as many rows as columns, 2 to 4,096.
    """
    rows: list[list[int]] = []
    known = {"0": 0}
    reader = csv.reader(read_text(path, _MOST_FILE_BYTES).splitlines(), skipinitialspace=True)
    try:
        for line in reader:
            if not any(field.strip() for field in line) or line[0].startswith("#"):
                continue
            row = []
            for number, field in enumerate(line, 1):
                text = field.strip()
                if text not in known:
                    known[text] = parse_size(text, f"{path}:{reader.line_num}: field {number}")
                row.append(known[text])
            if rows and len(row) != len(rows[0]):
                raise ConfigError(f"{path}:{reader.line_num}: {len(row)} fields, expected {len(rows[0])}")
            rows.append(row)
            if len(rows) > _MOST_ROWS:
                raise ConfigError(f"{path}: more than {_MOST_ROWS:,} rows, expected at most so many")
    except csv.Error as error:
        raise ConfigError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not rows:
        raise ConfigError(f"{path}: file is empty, expected a line of sizes for each NPU, like {describe('0,64KiB,4096')}")
    if len(rows) != len(rows[0]) or len(rows) < 2:
        raise ConfigError(f"{path}: {len(rows)} rows of {len(rows[0])} sizes, expected as many rows as columns, 2 or more")
    return np.array(rows, np.int64)
