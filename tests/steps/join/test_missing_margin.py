"""A cross-match whose right side has no margin: refused, with one that is made for it, or without one."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import SpecError
from hipslake.steps.join import run as crossmatch_work
from hipslake.steps.join.margin_beside import margin_beside
from hipslake.steps.join.request import CrossmatchReport, CrossmatchRequest, ResolveCrossmatchReport
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at
from tests.steps import in_process
from tests.steps.margins import assert_margins_are_exact

pytestmark = [pytest.mark.sampled(2), pytest.mark.usefixtures("large_sides")]

SPEC = """\
name: a_x_b
type: crossmatch
left: {catalog: a}
right: {catalog: b}
radius_arcsec: 60
"""
BUILD = "missing_margin: build\n"
NONE = "missing_margin: none\nneighbours: all\n"


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a`, and what lies near to it once with a margin (`wide`) and once without (`b`)."""
    ra, dec = sky(2500)
    rng = np.random.default_rng(1)
    root = tmp_path_factory.mktemp("margins") / "warehouse" / "catalogs"
    published(root, "a", rows_at(ra, dec), threshold="200 rows")
    near = rows_at(ra[:1800], np.clip(dec[:1800] + 0.01 * rng.normal(size=1800), -90, 90))
    published(root, "b", near, threshold="60 rows")
    published(root, "wide", near, threshold="60 rows", margin_arcsec=60.0)
    return root.parent


@pytest.fixture
def warehouse(catalogs: Path, tmp_path: Path) -> Path:
    shutil.copytree(catalogs, tmp_path / "warehouse", symlinks=True)
    return tmp_path / "warehouse"


def start(
    warehouse: Path, more: str = "", right: str = "b", run_id: str = "first", **fields: Any
) -> RunFolder:
    file = warehouse.parent / "a_x_b.yaml"
    file.write_text(SPEC.replace("catalog: b", f"catalog: {right}") + more)
    return in_process.start_match(warehouse, file, run_id, **fields)


def told(folder: RunFolder) -> ResolveCrossmatchReport:
    return folder.read(RunFolder.report_path("resolve"), ResolveCrossmatchReport)


def outcome(warehouse: Path) -> pa.Table:
    catalog = Catalog.open(warehouse / "catalogs" / "a_x_b")
    catalog.verify().raise_if_failed()
    return catalog.read()


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", ["inner", "left", "anti", "outer"])
def test_the_outcome_is_that_of_a_catalog_with_a_margin(warehouse: Path, how: str) -> None:
    more = f"how: {how}\nsuffixes: ['', _b]\n" + ("" if how == "anti" else "neighbours: all\nrank: rank\n")
    in_process.publish_match(start(warehouse, more, right="wide", run_id="wide"))
    expected = outcome(warehouse)
    before = contents(warehouse / "catalogs" / "b")
    folder = start(warehouse, more + BUILD)
    assert told(folder).builds_margin
    in_process.publish_match(folder)
    assert outcome(warehouse).equals(expected)
    assert expected.num_rows > 300
    after = contents(warehouse / "catalogs" / "b")
    assert {name for name in after if "_versions/pins" not in name} == {
        name for name in before if "_versions/pins" not in name
    }
    assert Catalog.open(warehouse / "catalogs" / "b").versions() == [1]


def test_partners_over_borders_are_not_found_without_it(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or this test would show nothing."""
    in_process.publish_match(start(warehouse, BUILD + "neighbours: all\n"))
    whole = outcome(warehouse).num_rows
    folder = start(warehouse, BUILD + "neighbours: all\n", run_id="second", force=True)
    build = crossmatch_work.build_margin_beside

    def empty(*given: Any) -> None:
        build(*given)
        files = folder.storage.sub("join/margin")
        write_table(files, "files.parquet", read_table(files, "files.parquet").slice(0, 0))

    monkeypatch.setattr(crossmatch_work, "build_margin_beside", empty)
    assert in_process.match(folder).rows_out < whole


def test_the_margin_is_exact(warehouse: Path) -> None:
    """Its rows are those of a margin of the same distance that the catalog is given."""
    folder = start(warehouse, BUILD)
    in_process.match(folder)
    beside = margin_beside(folder)
    catalog = Catalog.open(warehouse / "catalogs" / "b")
    catalog.build_margin(60.0)
    catalog = Catalog.open(warehouse / "catalogs" / "b")
    assert_margins_are_exact(catalog)
    margin = catalog.metadata.margin(60.0)
    assert margin is not None
    own = margin.table(catalog.storage)
    names = ["order", "npix", "rows", "bytes", "sha256"]
    assert beside.files.select(names).sort_by("npix").equals(own.select(names).sort_by("npix"))
    assert own.num_rows > 3


def test_without_it_the_run_is_refused_and_the_form_goes_before_the_spec(warehouse: Path) -> None:
    message = "no margin of 60 arcsec.* 'missing_margin: build'"
    with pytest.raises(SpecError, match=message):
        start(warehouse)
    with pytest.raises(SpecError, match=message):
        start(warehouse, BUILD, missing_margin="refuse")
    assert told(start(warehouse, missing_margin="build")).builds_margin
    assert not told(start(warehouse, BUILD, right="wide")).builds_margin  # it has one
    assert told(start(warehouse, BUILD, right="wide", radius_arcsec=61.0)).builds_margin  # too narrow
    with pytest.raises(
        SpecError, match="missing_margin: 'drop' does not fit; write 'build', 'none' or 'refuse'"
    ):
        start(warehouse, "missing_margin: drop\n")


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_without_one_rows_match_inside_leaves_and_the_run_says_of_how_many_that_matters(
    warehouse: Path, how: Literal["inner", "outer"], caplog: pytest.LogCaptureFixture
) -> None:
    folder = start(warehouse, f"{NONE}how: {how}\nsuffixes: ['', _b]\n")
    frozen = told(folder)
    assert (frozen.builds_margin, frozen.without_margin) == (False, True)
    with caplog.at_level(logging.WARNING):
        report = in_process.publish_match(folder)[0]
    a, b, made = (Catalog.open(warehouse / "catalogs" / name) for name in ("a", "b", "a_x_b"))
    names = ["id", "id_b", "separation_arcsec"]
    found = a.crossmatch(
        b, radius_arcsec=60, neighbours="all", how=how, suffixes=("", "_b"), missing_margin="none"
    )
    order = [("id", "ascending"), ("id_b", "ascending")]
    assert outcome(warehouse).select(names).sort_by(order).equals(found.select(names).sort_by(order))
    number = int(found.schema.metadata[b"rows_near_borders"])
    assert isinstance(report, CrossmatchReport)
    assert report.rows_near_borders == made.metadata.rows_near_borders == number > 0
    assert (
        f"catalog b has no margin of 60 arcsec, and is matched without one: {number} rows of a" in caplog.text
    )
    assert "inside each leaf of the latter alone" in made.metadata.description
    assert made.build_margin(10.0).metadata.rows_near_borders == number
    whole = a.crossmatch(
        Catalog.open(warehouse / "catalogs" / "wide"),
        radius_arcsec=60, neighbours="all", how=how, suffixes=("", "_b"),
    )  # fmt: skip
    lacking = {row for row in pairs(whole) - pairs(found) if None not in row}
    assert 0 < len({row for row, _ in lacking}) <= number


def pairs(table: pa.Table) -> set[tuple[int | None, int | None]]:
    return set(zip(table["id"].to_pylist(), table["id_b"].to_pylist(), strict=True))


def test_an_outcome_without_a_margin_is_another_one(warehouse: Path) -> None:
    in_process.publish_match(start(warehouse, NONE))
    assert told(start(warehouse, NONE, run_id="again")).unchanged_version == 1
    folder = start(warehouse, NONE, run_id="built", missing_margin="build")
    assert told(folder).unchanged_version is None
    assert told(folder).builds_margin
    report = in_process.publish_match(folder)[0]
    assert isinstance(report, CrossmatchReport)
    assert report.rows_near_borders is None
    metadata = Catalog.open(warehouse / "catalogs" / "a_x_b").metadata
    assert metadata.version == 2
    assert b"rows_near_borders" not in metadata.to_json()


def test_a_margin_that_is_there_is_used_in_any_case(warehouse: Path) -> None:
    folder = start(warehouse, NONE, right="wide")
    assert not told(folder).without_margin
    in_process.publish_match(folder)
    assert Catalog.open(warehouse / "catalogs" / "a_x_b").metadata.rows_near_borders is None
    assert (
        told(start(warehouse, BUILD + "neighbours: all\n", right="wide", run_id="b")).unchanged_version == 1
    )


def test_an_anti_match_does_not_do_without(warehouse: Path) -> None:
    with pytest.raises(SpecError, match="missing_margin: 'none' does not fit 'how: anti'"):
        start(warehouse, "how: anti\nmissing_margin: none\n")
    with pytest.raises(SpecError, match="missing_margin: 'none' does not fit 'how: anti'"):
        start(warehouse, "how: anti\n", missing_margin="none")


def test_a_retry_counts_the_same(warehouse: Path) -> None:
    folder = start(warehouse, NONE)
    found = [in_process.match(folder, task_rows=rows).rows_near_borders for rows in (100, 1000)]
    assert found[0] == found[1] != 0


def test_what_is_done_about_a_missing_margin_is_no_part_of_the_outcome(warehouse: Path) -> None:
    in_process.publish_match(start(warehouse, BUILD, right="wide"))
    assert told(start(warehouse, right="wide", run_id="second")).unchanged_version == 1


def test_a_retry_builds_it_anew_after_it_was_damaged(warehouse: Path) -> None:
    folder = start(warehouse, BUILD)
    in_process.match(folder)
    files = Path(folder.uri, "join", "margin")
    for path in files.rglob("*.parquet"):
        path.write_bytes(b"half")
    request = CrossmatchRequest(run_uri=folder.uri)
    crossmatch_work.run(request, ThisProcess())
    for step in (in_process.check, in_process.commit, in_process.show):
        step(folder)
    assert outcome(warehouse).num_rows > 300


def test_no_margin_of_the_whole_sky_is_built(warehouse: Path) -> None:
    moving = "epoch: 2200\nright: {catalog: b, motion: {pmra: pmra, pmdec: pmdec}}\n"
    ra, dec = sky(300)
    rows = (
        rows_at(ra, dec)
        .append_column("pmra", pa.array(np.full(300, 3e6)))
        .append_column("pmdec", pa.array(np.zeros(300)))
    )
    shutil.rmtree(warehouse / "catalogs" / "b")
    published(warehouse / "catalogs", "b", rows, threshold="100 rows")
    file = warehouse.parent / "a_x_b.yaml"
    file.write_text(SPEC.replace("right: {catalog: b}\n", "") + moving + BUILD)
    with pytest.raises(SpecError, match=r"missing_margin: a margin of .* arcsec: take"):
        in_process.start_match(warehouse, file)
