"""Some of the rows of a scan, from as few leaves and row groups as hold them: the first, or by chance."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from hipslake.catalog.reading import Part, PartReader
from hipslake.engine.this_process import read_ahead
from hipslake.errors import SpecError
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import HEALPIX_COLUMN

if TYPE_CHECKING:
    from hipslake.api.scan import Scan

SEED = 0
"""Of samples, where none is given."""


def first_rows(scan: Scan, n: int) -> pa.Table:
    """The first rows along the curve; as `Catalog.head`.

    Raises
    ------
    SpecError
        `n` is below 0.
    """
    _check_number(n)
    if not scan.schema.names:
        return first_rows(scan.select([HEALPIX_COLUMN]), n).select([])
    for beginning in _beginnings(scan):
        found = _first(beginning, n)
        if found.num_rows == n:
            return found
    return _first(scan, n)


def sampled_rows(scan: Scan, n: int, seed: int) -> pa.Table:
    """Some rows by chance; as `Catalog.sample`.

    Raises
    ------
    SpecError
        `n` is below 0.
    """
    _check_number(n)
    if not scan.schema.names:
        return sampled_rows(scan.select([HEALPIX_COLUMN]), n, seed).select([])
    reader, parts = scan.reading()
    ends = np.cumsum(_rows_of(scan, reader, parts), dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    drawn = np.random.default_rng(seed).choice(total, min(n, total), replace=False, shuffle=False)
    numbers = np.sort(drawn.astype(np.int64))
    of_part = np.searchsorted(ends, numbers, side="right")
    first = np.append(0, ends)

    chosen = np.unique(of_part).tolist()
    wanted = [numbers[of_part == at] - first[at] for at in chosen]
    begun = reader.ahead([parts[at] for at in chosen], numbers=wanted)
    found = read_ahead(lambda each: reader.read_rows(*each), zip(begun, wanted, strict=True))
    return pa.concat_tables([scan.schema.empty_table(), *found])


def part_rows(scan: Scan) -> list[int]:
    """How many rows of a scan each part has; only the columns are read that decide."""
    return _rows_of(scan, *scan.reading())


def _rows_of(scan: Scan, reader: PartReader, parts: list[Part]) -> list[int]:
    counting = replace(reader, selection=scan.selection.deciding())

    def count(part: Part) -> int:
        return part.rows if counting.takes_whole(part) else counting.read(part).num_rows

    return list(read_ahead(count, counting.ahead(parts, unless=counting.takes_whole)))


def _first(scan: Scan, n: int) -> pa.Table:
    """The first rows, of all leaves that may hold rows."""
    reader, parts = scan.reading()
    found, left = [], n
    for part in parts:
        if not left:
            break
        if reader.takes_whole(part) and part.rows > left:
            table = reader.read_rows(part, np.arange(left))
        else:
            table = reader.read(part).slice(0, left)
        found.append(table)
        left -= table.num_rows
    return pa.concat_tables([scan.schema.empty_table(), *found])


def _beginnings(scan: Scan) -> Iterator[Scan]:
    """Longer and longer stretches of the curve, where leaves are so many that sidecars list them."""
    group = scan.catalog.metadata.group(next(iter(scan.selection.columns)))
    stops = [sidecar.stop for sidecar in group.sidecars or ()]
    for number in itertools.takewhile(lambda each: each < len(stops), (4**power for power in range(16))):
        stretch = Intervals.union([0], [stops[number - 1]])
        near = stretch if scan.pixels is None else scan.pixels.common(stretch)
        yield replace(scan, pixels=near)


def _check_number(n: int) -> None:
    if n < 0:
        raise SpecError(f"n is {n}: no fewer than 0 rows can be given")
