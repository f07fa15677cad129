"""Histogram and write against an oracle: all rows of a run in one table, sorted and cut in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.catalog.layouts import layout_paths
from hipslake.catalog.leaf import encode_leaf, write_options
from hipslake.catalog.placement import in_curve_order, place
from hipslake.catalog.schema import check_columns
from hipslake.sources import open_source
from hipslake.sphere.pixels import Pixel
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage

from tests.steps.in_process import count, freeze, make_plan, start, write_leaves, write_source, write_spec

MAPPING_ORDER = 6  # of the spec of `in_process`
GROUPS = "column_groups: [{name: main}, {name: seen, columns: [mag]}]"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("layout", "threshold", "more"),
    [
        ("hats", "200 rows", ""),
        ("hats", "60 rows", ""),
        ("hats", "12 KiB", ""),
        ("hats", "200 rows", GROUPS),
        ("hipscat", "200 rows", GROUPS),
        ("hipscat", "9 KiB", GROUPS),
    ],
)
def test_cells_and_leaves_are_those_of_one_sorted_table(
    tmp_path: Path, layout: str, threshold: str, more: str
) -> None:
    write_source(tmp_path / "landing", rows=2500, files=4)
    source, path = f"{tmp_path}/landing/*.parquet", tmp_path / "stars.yaml"
    spec = write_spec(path, source, threshold=threshold, layout=layout, more=more)
    folder = start(tmp_path / "warehouse", spec)
    freeze(folder)
    report = count(folder)
    make_plan(folder)
    write_leaves(folder)

    keys, groups = _sorted(folder)
    assert report.rows_in == report.rows_out == len(keys)
    cells, per_order = (read_table(folder.storage, name) for name in (folder.HISTOGRAM, folder.PER_ORDER))
    _check_counts(cells, keys)
    _check_counts(per_order, keys)
    assert pc.sum(cells["rows"]).as_py() == len(keys)
    of_orders = per_order.group_by("order").aggregate([("rows", "sum")]).to_pylist()
    assert {order["rows_sum"] for order in of_orders if order["order"] <= MAPPING_ORDER} == {len(keys)}
    assert {order["order"] for order in of_orders} >= set(range(MAPPING_ORDER))
    leaves = _leaves(folder)
    assert leaves == _plain_leaves(folder, keys, groups)
    assert sum(rows for rows, _ in leaves.values()) == len(groups) * len(keys)


def _sorted(folder: RunFolder) -> tuple[np.ndarray, dict[str, pa.RecordBatch]]:
    """All rows of the run: their order-29 pixels, ascending, and the columns of each group in that order."""
    spec = FrozenRun.of(folder).spec
    source, files = open_source(spec.source), FrozenInputs.of(folder).files
    schema = source.schema(files)
    batches = [batch for split in source.splits(files) for batch in source.read(split, schema)]
    rows = pa.Table.from_batches(batches, schema=schema).combine_chunks().to_batches()[0]
    return in_curve_order(
        rows,
        place(rows, spec.position),
        position=spec.position,
        schemas=check_columns(spec, rows.schema),
        row_start=0,
    )


def _check_counts(cells: pa.Table, keys: np.ndarray) -> None:
    """Each pixel has the rows between its borders."""
    for cell in cells.to_pylist():
        first, last = np.searchsorted(keys, Pixel(cell["order"], cell["npix"]).interval)
        assert cell["rows"] == last - first > 0, cell


def _plain_leaves(
    folder: RunFolder, keys: np.ndarray, groups: dict[str, pa.RecordBatch]
) -> dict[str, tuple[int, bytes]]:
    """Path of each leaf to its rows and its bytes; leaves that came out too large were cut again."""
    run, leaves = FrozenRun.of(folder), {}
    for leaf in read_table(folder.storage, RunFolder.PARTITIONS).to_pylist():
        group, pixel = leaf["group"], Pixel(leaf["order"], leaf["npix"])
        first, last = np.searchsorted(keys, pixel.interval)
        table = pa.Table.from_batches([groups[group].slice(first, last - first)])
        encoded = encode_leaf([table], table.schema, write_options(run.spec.parquet, table.schema))
        path = layout_paths(run.spec.layout).partition_path(run.write_id, group, pixel)
        leaves[path] = (table.num_rows, bytes(encoded.to_pybytes()))
    return leaves


def _leaves(folder: RunFolder) -> dict[str, tuple[int, bytes]]:
    """The same of what the step wrote."""
    catalog = Storage.at(FrozenRun.of(folder).catalog_uri)
    files = read_table(folder.storage, RunFolder.PARTITIONS).to_pylist()
    return {file["path"]: (file["rows"], catalog.read(file["path"])) for file in files}
