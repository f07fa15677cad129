"""The catalogs of the benchmark of living catalogs, and what nights bring to them.

A unit of a catalog is a pixel of order 1, of a million rows. All nights see one field, a circle in the middle
of the first unit, of an eighth of its area: so the same nights can come to a catalog of any number of units.
Keys are the order-29 pixels in which objects lay when they were first seen, as surveys number them: what is
near on the sky is near in the order of keys, too. Those of the catalog `scattered` are the same, mixed.
"""

from __future__ import annotations

from collections.abc import Callable

import healpy
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

UNIT_ROWS = 1_000_000
OBJECTS = 100_000  # of a unit of the catalog of objects; each has ten sources
SOURCES = 10
NIGHT_ROWS = 50_000
MOST_NIGHTS = 10
_DELETES = _INSERTS = _MOVES = NIGHT_ROWS // 10
_UPDATES = NIGHT_ROWS - _DELETES - _INSERTS
_NSIDE = 1 << 29
_FIELD_AREA = 1 / 8  # of a unit
_FIELD = np.array(healpy.pix2vec(2, 0, nest=True))
_WITHIN = 1 - _FIELD_AREA * 4 * np.pi / 48 / (2 * np.pi)  # the cosine of its radius
_MOVE_DEG = 30 / 3600
_PER_OBJECT = 64  # keys that an object may have for its sources


def stars(unit: int) -> pa.Table:
    """The stars of a unit."""
    h29 = _places(unit, UNIT_ROWS, 0)
    return _with_values(pa.table({"id": h29, **_position(h29)}), [unit, 1])


def others(unit: int) -> pa.Table:
    """Rows near the stars of a unit, each 0.36 arcseconds or less beside its star."""
    h29 = _places(unit, UNIT_ROWS, 0)
    place = _position(h29)
    place["ra"] = place["ra"] + 1e-4
    return _with_values(pa.table({"id": np.arange(len(h29)) + unit * UNIT_ROWS, **place}), [unit, 2])


def objects(unit: int) -> pa.Table:
    """The objects of a unit."""
    h29 = _places(unit, OBJECTS, 3)
    return _with_values(pa.table({"id": h29, **_position(h29)}), [unit, 4])


def sources(unit: int) -> pa.Table:
    """The sources of the objects of a unit."""
    seen = np.repeat(_places(unit, OBJECTS, 3), SOURCES)
    return _sources_of(seen, _source_keys(seen, np.arange(len(seen)) % SOURCES), [unit, 5])


def scattered(unit: int) -> pa.Table:
    """The stars of a unit with keys that say nothing of where they lie."""
    return _scattered(stars(unit))


def stars_of_night(night: int) -> pa.Table:
    """The records that a night has of stars; `op` says of each what it does.

    Of 50,000 records, 40,000 change rows, 5,000 of which move by up to 30 arcseconds; 5,000 insert rows, and
    5,000 delete some.
    """
    mine = _in_field(stars(0))
    changed, gone = _chosen(mine, night)
    rng = np.random.default_rng([night, 6])
    moved = np.zeros(changed.num_rows)
    moved[:_MOVES] = rng.uniform(-_MOVE_DEG, _MOVE_DEG, _MOVES)
    at = changed.column_names.index("dec")
    changed = _with_values(changed.set_column(at, "dec", pa.array(changed["dec"].to_numpy() + moved)), rng)
    new = np.setdiff1d(rng.integers(0, 1 << 56, 20 * _INSERTS), mine["id"].to_numpy())
    rng.shuffle(new)
    fresh = _in_field(pa.table({"id": new, **_position(new)})).slice(0, _INSERTS)
    return _records(_with_values(fresh, rng), changed, gone)


def sources_of_night(night: int) -> pa.Table:
    """The records that a night has of sources, as of stars; those that move go to another object."""
    mine = _in_field(sources(0))
    changed, gone = _chosen(mine, night)
    rng = np.random.default_rng([night, 7])
    seen = changed["object_id"].to_numpy().copy()
    here = np.unique(mine["object_id"].to_numpy())
    seen[:_MOVES] = rng.choice(here, _MOVES)
    changed = _sources_of(seen, changed["id"].to_numpy(), rng)
    new = rng.choice(here, _INSERTS, replace=False)
    fresh = _sources_of(new, _source_keys(new, SOURCES + night), rng)
    return _records(fresh, changed, gone)


def scattered_of_night(night: int) -> pa.Table:
    """The records of `stars_of_night`, with the keys of `scattered`."""
    return _scattered(stars_of_night(night))


UNITS: dict[str, Callable[[int], pa.Table]] = {
    "stars": stars,
    "others": others,
    "objects": objects,
    "sources": sources,
    "scattered": scattered,
}
"""What makes a unit of each catalog."""

NIGHTS: dict[str, Callable[[int], pa.Table]] = {
    "stars": stars_of_night,
    "sources": sources_of_night,
    "scattered": scattered_of_night,
}
"""What makes the records of a night."""


def rows_after(table: pa.Table, nights: list[pa.Table]) -> pa.Table:
    """The rows of a unit after nights, in the order of their keys: what a catalog has to hold."""
    rows = table
    for records in nights:
        kept = ~np.isin(rows["id"].to_numpy(), records["id"].to_numpy())
        puts = records.filter(pa.array(records["op"].to_numpy(zero_copy_only=False) != "D"))
        rows = pa.concat_tables([rows.filter(pa.array(kept)), puts.select(rows.column_names)])
    return rows.sort_by("id").combine_chunks()


def _places(unit: int, rows: int, kind: int) -> NDArray[np.int64]:
    """Order-29 pixels, evenly spread over a unit, ascending."""
    drawn = np.random.default_rng([unit, kind]).integers(unit << 56, (unit + 1) << 56, rows)
    return np.unique(drawn)


def _position(h29: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    ra, dec = healpy.pix2ang(_NSIDE, h29, nest=True, lonlat=True)
    return {"ra": ra, "dec": dec}


def _with_values(table: pa.Table, seed: list[int] | np.random.Generator) -> pa.Table:
    """A table with four columns of values, in place of those it has."""
    rng = np.random.default_rng(seed)
    table = table.select([name for name in table.column_names if not name.startswith("value_")])
    for number in range(4):
        table = table.append_column(f"value_{number}", pa.array(rng.normal(size=table.num_rows)))
    return table


def _source_keys(seen: NDArray[np.int64], number: int | NDArray[np.int64]) -> NDArray[np.int64]:
    return seen // _PER_OBJECT * _PER_OBJECT + number


def _sources_of(
    seen: NDArray[np.int64], keys: NDArray[np.int64], seed: list[int] | np.random.Generator
) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {"id": keys, "object_id": seen, **_position(seen)}
    columns |= {"time": rng.uniform(0, 900, len(seen)), "value_0": rng.normal(size=len(seen))}
    return pa.table(columns)


def _scattered(table: pa.Table) -> pa.Table:
    """The rows with other keys: those that they have, mixed by SplitMix64."""
    mixed = table["id"].to_numpy().astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    keys = ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
    names = [name for name in ("id", "ra", "dec", "op") if name in table.column_names]
    return table.select(names).set_column(0, "id", pa.array(keys))


def _in_field(table: pa.Table) -> pa.Table:
    vectors = healpy.ang2vec(table["ra"].to_numpy(), table["dec"].to_numpy(), lonlat=True)
    return table.filter(pa.array(vectors @ _FIELD > _WITHIN))


def _chosen(mine: pa.Table, night: int) -> tuple[pa.Table, pa.Table]:
    """Which rows of a field a night changes, and which it takes away; no two nights take the same."""
    along = np.random.default_rng(8).permutation(mine.num_rows)
    stay = along[MOST_NIGHTS * _DELETES :]
    changed = np.random.default_rng([night, 8]).choice(stay, _UPDATES, replace=False)
    gone = along[(night - 1) * _DELETES : night * _DELETES]
    return mine.take(pa.array(changed)), mine.take(pa.array(gone))


def _records(fresh: pa.Table, changed: pa.Table, gone: pa.Table) -> pa.Table:
    parts = [
        rows.append_column("op", pa.array([op] * rows.num_rows))
        for op, rows in (("I", fresh), ("U", changed), ("D", gone))
    ]
    return pa.concat_tables(parts).combine_chunks()
