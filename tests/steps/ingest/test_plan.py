"""The plan step: every column group on its own threshold, in rows or in bytes of the real file."""

from __future__ import annotations

import re
from pathlib import Path

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake.errors import PlanError, VerificationError
from hipslake.sphere.pixels import Pixel
from hipslake.steps.ingest import plan as plan_step
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table

from tests.steps.in_process import count, freeze, make_plan, start, write_leaves, write_spec

GROUPS = """\
column_groups:
  - {name: main, columns: [id, ra, dec], threshold: 6 KiB}
  - {name: details, columns: "*", threshold: 700 rows}
"""


@pytest.fixture
def two_groups(warehouse: Path, tmp_path: Path, source: pa.Table) -> RunFolder:
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", layout="hipscat", more=GROUPS)
    folder = start(warehouse, spec)
    freeze(folder)
    count(folder)
    return folder


def test_leaves_hold_the_rows_that_healpy_counts(warehouse: Path, spec_file: Path, source: pa.Table) -> None:
    folder = start(warehouse, spec_file)
    freeze(folder)
    count(folder)
    report = make_plan(folder)
    plan = read_table(folder.storage, RunFolder.PLAN)
    ra, dec = source["ra"].to_numpy(), source["dec"].to_numpy()
    for order, npix, rows in zip(
        *(plan[name].to_pylist() for name in ("order", "npix", "rows")), strict=True
    ):
        pixels = healpy.ang2pix(1 << order, ra, dec, nest=True, lonlat=True)
        assert np.count_nonzero(pixels == npix) == rows <= 200
    assert report.rows_in == report.rows_out == 3000


def test_groups_are_planned_each_on_its_own_threshold(two_groups: RunFolder) -> None:
    report = make_plan(two_groups)
    plan = read_table(two_groups.storage, RunFolder.PLAN)
    details = plan.filter(pc.equal(plan["group"], "details"))
    assert pc.max(details["rows"]).as_py() <= 700
    assert report.leaves["main"] > report.leaves["details"]
    assert list(dict.fromkeys(plan["group"].to_pylist())) == ["main", "details"]


def test_leaves_planned_in_bytes_come_out_about_as_large_as_expected(two_groups: RunFolder) -> None:
    make_plan(two_groups)
    write_leaves(two_groups)
    plan = read_table(two_groups.storage, RunFolder.PLAN).to_pylist()
    files = read_table(two_groups.storage, RunFolder.PARTITIONS).to_pylist()
    for leaf in plan:
        first, last = Pixel(leaf["order"], leaf["npix"]).interval
        parts = [  # several where it came out over the threshold and was split again
            file
            for file in files
            if file["group"] == leaf["group"]
            and first <= Pixel(file["order"], file["npix"]).interval[0] < last
        ]
        assert sum(part["rows"] for part in parts) == leaf["rows"]
        assert all(part["bytes"] < 1.5 * leaf["bytes"] + 500 for part in parts)
    assert all(leaf["bytes"] <= 6 * 1024 + 10 for leaf in plan if leaf["group"] == "main")
    assert all(file["bytes"] <= 6 * 1024 for file in files if file["group"] == "main")


def test_a_threshold_below_the_file_of_one_row_is_an_error(
    warehouse: Path, tmp_path: Path, source: pa.Table
) -> None:
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", threshold="100 B")
    folder = start(warehouse, spec)
    freeze(folder)
    count(folder)
    with pytest.raises(PlanError, match=r"a file with one row takes \d+ bytes"):
        make_plan(folder)


def test_the_summary_for_people_names_every_group(two_groups: RunFolder) -> None:
    report = make_plan(two_groups)
    assert report.text == two_groups.storage.read(RunFolder.PLAN_SUMMARY).decode()
    assert "main:" in report.text
    assert "details:" in report.text


ORDERS = ("", "lowest_order: 3", "lowest_order: 1\nhighest_order: 5", "mapping_order: 4", "mapping_order: 11")


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize(
    "threshold", ["1 rows", "20 rows", "200 rows", "5000 rows", "3 KiB", "40 KiB", "1 MiB"]
)
def test_leaves_are_those_that_all_counted_cells_give(
    warehouse: Path,
    tmp_path: Path,
    source: pa.Table,
    monkeypatch: pytest.MonkeyPatch,
    threshold: str,
    orders: str,
) -> None:
    """However few of the coarser orders are looked at first, and whatever the orders that leaves may have."""
    place = f"{tmp_path}/landing/*.parquet"
    spec = write_spec(tmp_path / "stars.yaml", place, threshold=threshold, more=orders)
    if "mapping_order" in orders:
        spec.write_text(re.sub("^mapping_order: .*\n", "", spec.read_text(), count=1, flags=re.MULTILINE))
    folder = start(warehouse, spec)
    freeze(folder)
    count(folder)

    def planned() -> pa.Table | str:
        folder.storage.delete(RunFolder.report_path("plan"))
        try:
            make_plan(folder)
        except PlanError as error:
            return str(error)
        return read_table(folder.storage, RunFolder.PLAN)

    found = planned()
    for coarse in (-1, 2, 5):
        monkeypatch.setattr(plan_step, "_COARSE_ORDER", coarse)
        other = planned()
        assert found == other if isinstance(found, str) else found.equals(other)


def test_cells_below_the_leaves_are_not_read(warehouse: Path, tmp_path: Path, source: pa.Table) -> None:
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", threshold="1500 rows")
    folder = start(warehouse, spec)
    freeze(folder)
    count(folder)
    folder.storage.delete(RunFolder.HISTOGRAM)
    assert make_plan(folder).rows_out == 3000


@pytest.mark.parametrize("changed", [1, -1])
def test_coarser_orders_that_do_not_hold_all_rows_are_not_planned_from(
    warehouse: Path, spec_file: Path, source: pa.Table, changed: int
) -> None:
    folder = start(warehouse, spec_file)
    freeze(folder)
    count(folder)
    make_plan(folder)
    expected = read_table(folder.storage, RunFolder.PLAN)
    for path, is_refused in (RunFolder.PER_ORDER, False), (RunFolder.HISTOGRAM, True):
        cells = read_table(folder.storage, path)
        rows = pc.add(cells["rows"], changed)
        field = cells.schema.field("rows")
        write_table(folder.storage, path, cells.set_column(cells.schema.names.index("rows"), field, rows))
        folder.storage.delete(RunFolder.report_path("plan"))
        if is_refused:
            with pytest.raises(VerificationError, match="its report counts 3000"):
                make_plan(folder)
        else:
            make_plan(folder)
            assert read_table(folder.storage, RunFolder.PLAN).equals(expected)
