"""Runs of a cross-match with a small side: no margin, rows that are left in a file, the same outcome."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.catalog.joining import small_sides
from hipslake.errors import SpecError, VerificationError
from hipslake.steps.join.frozen_join import FrozenCrossmatch
from hipslake.steps.join.request import FROZEN, ResolveCrossmatchReport
from hipslake.steps.run import RunFolder

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at
from tests.steps import in_process

SPEC = """\
name: a_x_b
type: crossmatch
left: {catalog: LEFT}
right: {catalog: RIGHT}
radius_arcsec: 60
threshold: 300 rows
parquet: {row_group_rows: 100}
suffixes: ["", _other]
"""
LEFT, RIGHT = ("few", "many"), ("many", "few")


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`many`, and `few` near some of it, both with a margin under another name."""
    ra, dec = sky(2500)
    rng = np.random.default_rng(1)
    root = tmp_path_factory.mktemp("small") / "warehouse" / "catalogs"
    many = rows_at(ra, dec)
    some = rng.choice(2500, 500)
    few = rows_at(ra[some], np.clip(dec[some] + 0.01 * rng.normal(size=500), -90, 90))
    for name, rows in (("many", many), ("few", few)):
        published(root, name, rows, threshold="60 rows", parquet={"row_group_rows": 20})
        published(root, f"{name}_wide", rows, threshold="60 rows", margin_arcsec=60.0)
    return root.parent


@pytest.fixture
def warehouse(catalogs: Path, tmp_path: Path) -> Path:
    shutil.copytree(catalogs, tmp_path / "warehouse", symlinks=True)
    return tmp_path / "warehouse"


def start(
    warehouse: Path, sides: tuple[str, str], more: str = "", run_id: str = "first", **fields: Any
) -> RunFolder:
    file = warehouse.parent / "a_x_b.yaml"
    file.write_text(SPEC.replace("LEFT", sides[0]).replace("RIGHT", sides[1]) + more)
    return in_process.start_match(warehouse, file, run_id, **fields)


def told(folder: RunFolder) -> ResolveCrossmatchReport:
    return folder.read(RunFolder.report_path("resolve"), ResolveCrossmatchReport)


def outcome(warehouse: Path) -> tuple[pa.Table, list[tuple[Any, ...]]]:
    """The rows, and what identifies the leaf files, by their bytes."""
    catalog = Catalog.open(warehouse / "catalogs" / "a_x_b")
    catalog.verify().raise_if_failed()
    files = catalog.metadata.partitions(None, catalog.storage)
    return catalog.read(), list(zip(*(files[name].to_pylist() for name in ("npix", "sha256")), strict=True))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("neighbours", ["1", "all", "best"])
@pytest.mark.parametrize("how", ["inner", "left", "anti", "outer"])
@pytest.mark.parametrize(("sides", "small"), [(LEFT, "left"), (RIGHT, "right")])
def test_the_leaves_are_those_of_a_run_with_a_margin(
    warehouse: Path,
    monkeypatch: pytest.MonkeyPatch,
    sides: tuple[str, str],
    small: str,
    how: str,
    neighbours: str,
) -> None:
    more = f"how: {how}\nneighbours: {neighbours}\n"
    folder = start(warehouse, sides, more)
    found = told(folder)
    assert (found.small_side, found.builds_margin, found.without_margin) == (small, False, False)
    report = in_process.match(folder, task_rows=200)
    assert (report.held_rows, report.rows_near_borders) == (500, None)
    assert report.tasks > 3
    for step in (in_process.check, in_process.commit, in_process.show):
        step(folder)
    rows, files = outcome(warehouse)
    monkeypatch.setattr(small_sides, "MOST_ROWS", 499)
    folder = start(warehouse, (sides[0], f"{sides[1]}_wide"), more, "second", force=True)
    assert told(folder).small_side is None
    in_process.publish_match(folder)
    expected = outcome(warehouse)
    assert rows.equals(expected[0])
    assert files == expected[1]
    assert len(files) > 3


@pytest.mark.parametrize("sides", [LEFT, RIGHT])
@pytest.mark.parametrize("missing", ["refuse", "build", "none"])
def test_no_margin_is_asked_for_whatever_is_said_of_a_missing_one(
    warehouse: Path, sides: tuple[str, str], missing: str
) -> None:
    folder = start(warehouse, sides, f"missing_margin: {missing}\n")
    frozen = folder.read(FROZEN, FrozenCrossmatch)
    assert (frozen.builds_margin, frozen.without_margin) == (None, False)
    assert frozen.small == told(folder).small_side is not None
    report = in_process.match(folder)
    assert (report.held_rows, report.rows_near_borders) == (500, None)
    assert not (Path(folder.uri) / "join" / "margin").exists()


def test_the_report_says_what_decides(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = "a small side has at most 1000000 rows and 256 MiB"
    found = told(start(warehouse, RIGHT))
    assert (
        found.small_side_because == f"left 2500 rows, about 0.1 MiB, right 500 rows, about 0.0 MiB; {bound}"
    )
    monkeypatch.setattr(small_sides, "MOST_ROWS", 100)
    with pytest.raises(SpecError, match="catalog few has no margin of 60 arcsec"):
        start(warehouse, RIGHT, run_id="second")
    found = told(start(warehouse, RIGHT, "missing_margin: build\n", "third"))
    assert (found.small_side, found.builds_margin) == (None, True)
    assert "has at most 100 rows" in found.small_side_because


def test_a_run_goes_on_as_it_was_frozen(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another bound, as another library may have it, does not change what a run is about."""
    folder = start(warehouse, RIGHT)
    monkeypatch.setattr(small_sides, "MOST_ROWS", 0)
    report = in_process.match(folder)
    assert report.held_rows == 500
    again = in_process.match(folder)  # as a retry does, over what the first one has left
    assert (again.held_rows, again.rows_out) == (500, report.rows_out)


@pytest.mark.parametrize(("sides", "name"), [(LEFT, "held_left"), (RIGHT, "held_right_0")])
def test_tasks_read_the_held_rows_from_the_file_of_the_run(
    warehouse: Path, sides: tuple[str, str], name: str
) -> None:
    """The leaves of the small side are read once, and then no more."""
    folder = start(warehouse, sides)
    in_process.match(folder)
    file = Path(folder.uri) / "join" / f"{name}.arrow"
    assert pa.ipc.open_file(pa.memory_map(str(file))).read_all().num_rows == 500
    join = folder.read(FROZEN, FrozenCrossmatch).open(folder)
    for leaf in (warehouse / "catalogs" / "few").rglob("Npix=*.parquet"):
        leaf.unlink()
    assert join.table(0, 12 << 58).num_rows > 100
    file.unlink()
    with pytest.raises(VerificationError, match="rows of a small side of the match, cannot be read"):
        folder.read(FROZEN, FrozenCrossmatch).open(folder).table(0, 12 << 58)


def test_of_several_right_sides_each_is_told(warehouse: Path) -> None:
    more = "further:\n  - {right: {catalog: few}, radius_arcsec: 30, how: left}\n"
    folder = start(warehouse, ("many", "many_wide"), more)
    found = told(folder)
    assert (found.small_side, [each.small_side for each in found.further]) == ("right", ["right"])
    assert "right 500 rows" in found.further[0].small_side_because
    report = in_process.match(folder)
    assert report.held_rows == 3000
    assert report.rows_out >= 2500
