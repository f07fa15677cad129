"""Indices of a survey that grows, held against plain pyarrow, and against one that is built whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.catalog.layouts import index_root
from hipslake.catalog.metadata import Index
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.index.index_files import IndexOrder
from hipslake.steps.index.request import BuildIndexReport
from hipslake.steps.index.run import build_index

from tests.steps import in_process
from tests.steps.nights import Survey

INDEXED = ("id", "night", "name", "kind")
FILE_ROWS = 60
WHOLE = "20260101T0000-aaaaaaaaaaaa"
TWO_GROUPS = """
column_groups:
  - name: main
    columns: [id, ra, dec, name]
  - name: light
    columns: "*"
    threshold: 90 rows
"""


def rows_of_night(number: int, rows: int = 200, seed: int = 0) -> pa.Table:
    """Rows with columns to index: distinct, few, texts with nulls, and numbers with many nulls."""
    rng = np.random.default_rng([number, seed])
    ra = (40 * number + rng.uniform(0, 60, rows)) % 360
    dec = rng.uniform(-30, 40, rows)
    crowd = rows // 4
    ra[:crowd], dec[:crowd] = rng.normal(80, 0.5, crowd), rng.normal(20, 0.5, crowd)
    ra[:3], dec[:3] = 80.0, 20.0  # in one place
    names = np.array([f"object {at}" for at in rng.integers(0, 50, rows)], object)
    names[rng.random(rows) < 0.2] = None
    kind = rng.integers(-3, 3, rows)
    return pa.table(
        {
            "id": number * 1_000_000 + rng.permutation(rows),
            "ra": ra,
            "dec": dec,
            "night": np.full(rows, number, np.int32),
            "name": pa.array(names.tolist(), pa.string()),
            "kind": pa.array(np.where(rng.random(rows) < 0.6, None, kind).tolist(), pa.int16()),
        }
    )


def index(survey: Survey, **knobs: Any) -> BuildIndexReport:
    """Bring the indices of the newest version up to date."""
    asked = {"published": True, "file_rows": FILE_ROWS, "task_rows": 4 * FILE_ROWS} | knobs
    return in_process.make_indices(survey.begin(), **asked)


def plain_values(catalog: Catalog, column: str, identity: str = "id") -> list[tuple[Any, Any]]:
    """A column and what tells rows apart, of the leaf files of the version, by pyarrow alone."""
    pairs: dict[int, dict[str, Any]] = {}
    for group in catalog.metadata.groups:
        wanted = [name for name in {column, identity, "_row"} if name in group.to_arrow().names]
        for path in group.table(catalog.storage)["path"].to_pylist():
            for row in pq.ParquetFile(f"{catalog.storage.root}/{path}").read(wanted).to_pylist():
                pairs.setdefault(row["_row"], {}).update(row)
    return [(row[column], row[identity]) for row in pairs.values()]


def assert_finds(catalog: Catalog, columns: Sequence[str] = INDEXED, identity: str = "id") -> None:
    """Every value is found wherever it is, and no other."""
    for column in columns:
        rows = plain_values(catalog, column, identity)
        held = {value for value, _ in rows if value is not None}
        absent: list[Any] = ["nobody", "object"] if isinstance(next(iter(held), 0), str) else [-9999, 10**15]
        few = sorted(held)[:: max(1, len(held) // 7)]
        for wanted in ([*held, *absent], few, absent, few[:1]):
            found = catalog.find(column, wanted)[identity].to_pylist() if wanted else []
            expected = sorted(name for value, name in rows if value in set(wanted))
            assert sorted(found) == expected, (column, wanted)


def assert_as_if_built_whole(catalog: Catalog, columns: Sequence[str] = INDEXED) -> None:
    """The indices are, to the byte, those of a build from all leaves."""
    metadata, storage = catalog.metadata, catalog.storage
    for column in columns:
        found = metadata.index_of(column)
        assert found is not None
        assert found.built_of is not None
        order = IndexOrder(
            storage, metadata, column, WHOLE, file_entries=FILE_ROWS, task_entries=3 * FILE_ROWS
        )
        whole = build_index(order, ThisProcess(), full_because="for the test").described
        assert told(found) == told(whole)
        for file in found.files:
            assert storage.sha256(file.path) == file.sha256
        if metadata.layout == "hats":
            folders = [index_root(write, column) for write in (found.files[0].path.split("/")[0], WHOLE)]
            listed = [
                sorted(each.path.split("/")[-1] for each in storage.list(f"{one}/dataset/index"))
                for one in folders
            ]
            assert listed[0] == listed[1] == sorted(file.path.split("/")[-1] for file in found.files)
            sums = [storage.sha256(f"{one}/dataset/_metadata") for one in folders]
            assert sums[0] == sums[1]
        storage.delete_tree(WHOLE)


def told(index: Index) -> list[Any]:
    """What an index says of its files, but for the write that they are in."""
    files = [file.model_copy(update={"path": file.path.split("/")[-1]}) for file in index.files]
    assert index.built_of is not None
    return [files, index.rows, index.bytes, index.writes, index.leaves, index.built_of.values]
