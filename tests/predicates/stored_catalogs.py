"""Random tables as published catalogs: layouts, column groups, row groups, statistics, later columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.catalog.leaf import encode_leaf
from hipslake.catalog.metadata import CoPartitioned
from hipslake.storage.folder import Storage

from tests.catalog.little import write_little
from tests.catalog.margins_by_hand import with_margin
from tests.catalog.publishing import commit
from tests.predicates.random_predicates import RandomTable

RADIUS_ARCSEC = 3600.0
CENTER = (80.0, 30.0)


@dataclass(frozen=True)
class StoredTable:
    """A random table, published."""

    table: RandomTable
    catalog: Catalog
    positions: list[tuple[float, float]]
    groups: dict[str, set[str]]  # of random columns, by column group
    paths: dict[str, list[str]]  # of leaf files, by column group
    indexed: tuple[str, ...] = ()

    def separation(self, one: int, other: int) -> float:
        """Arcseconds between two rows."""
        return _arcsec(self.positions[one], self.positions[other])

    def within(self, center: tuple[float, float], radius_arcsec: float) -> set[int]:
        """The rows of a cone; none lies within rounding of its border."""
        return {
            number for number, place in enumerate(self.positions) if _arcsec(center, place) <= radius_arcsec
        }


def publish_randomly(random: Random, root: Path, table: RandomTable) -> StoredTable:
    """Publish a table, its rows near each other, in some leaves; columns `id`, `ra` and `dec` are added."""
    rows = len(table.rows)
    positions = [(CENTER[0] + random.uniform(-4, 4), CENTER[1] + random.uniform(-4, 4)) for _ in range(rows)]
    ra, dec = (np.array(side) for side in zip(*positions, strict=True))
    source = pa.table({"id": range(rows), "ra": ra, "dec": dec}).append_column(
        "extra", pa.nulls(rows, pa.int8())
    )
    names = [column.name for column in table.columns]
    for name, column in zip(names, table.columns, strict=True):
        source = source.append_column(name, column.array)
    fields: dict[str, Any] = {
        "layout": random.choice(("hats", "hipscat")),
        "threshold": f"{random.choice((12, 30, 100))} rows",
        "parquet": {"row_group_rows": random.choice((3, 8, 20, 100))},
        "position": {"ra": "ra", "dec": "dec", "epoch": 2000.0},
    }
    groups = {"main": set(names)}
    if random.random() < 0.5:
        apart = random.sample(names, random.randint(1, len(names)))
        fields["column_groups"] = [
            {"name": "main"},
            {"name": "details", "columns": [*apart, "extra"], "threshold": f"{random.choice((10, 30))} rows"},
        ]
        groups = {"main": set(names) - set(apart), "details": set(apart)}
    writing = _Writing(random, names)
    storage = Storage.at(root / "stars")
    metadata = write_little(storage, source, (ra, dec), encode=writing.encode, **fields)
    if fields["layout"] == "hats":
        metadata = with_margin(storage, metadata, RADIUS_ARCSEC)
    metadata = metadata.model_copy(update={"co_partitioned": (CoPartitioned(column="id"),)})
    commit(storage, metadata)
    paths = {name: metadata.partitions(name, storage)["path"].to_pylist() for name in groups}
    return StoredTable(table, Catalog.open(storage.uri()), positions, groups, paths)


class _Writing:
    """How leaf files are written: with statistics, without, or with those of some columns.

    A column that is null in a whole leaf may be missing in its file, as in leaves that are older than it.
    """

    def __init__(self, random: Random, names: list[str]) -> None:
        self._random = random
        some = random.sample(names, random.randint(1, len(names)))
        self._statistics = random.choice((True, True, False, some))
        self._drops = random.random() < 0.5

    def encode(self, row_groups: list[pa.Table], schema: pa.Schema, options: dict[str, Any]) -> pa.Buffer:
        options = options | {"write_statistics": self._statistics}
        if isinstance(self._statistics, list):
            options["write_statistics"] = [name for name in self._statistics if name in schema.names] or False
        dropped = [
            field.name
            for field in schema
            if self._drops
            and not pa.types.is_nested(field.type)
            and all(group[field.name].null_count == group.num_rows for group in row_groups)
        ]
        if not dropped:
            return encode_leaf(row_groups, schema, options)
        kept = pa.schema([field for field in schema if field.name not in dropped])
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink, kept, write_statistics=options["write_statistics"] is not False
        ) as writer:
            for group in row_groups:
                writer.write_table(group.select(kept.names).cast(kept), row_group_size=max(1, group.num_rows))
        return sink.getvalue()


def _arcsec(one: tuple[float, float], other: tuple[float, float]) -> float:
    (ra, dec), (there_ra, there_dec) = (tuple(map(math.radians, place)) for place in (one, other))
    haversine = math.sin((there_dec - dec) / 2) ** 2
    haversine += math.cos(dec) * math.cos(there_dec) * math.sin((there_ra - ra) / 2) ** 2
    return math.degrees(2 * math.asin(math.sqrt(haversine))) * 3600
