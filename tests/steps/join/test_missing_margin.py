"""A cross-match whose right side has no margin: refused, or one is made for the run alone, beside it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import SpecError
from hipslake.steps.join import run as crossmatch_work
from hipslake.steps.join.margin_beside import margin_beside
from hipslake.steps.join.request import CrossmatchRequest, ResolveCrossmatchReport
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table, write_table

from tests.catalog.little import sky
from tests.catalog.matching import published, rows_at
from tests.steps import in_process
from tests.steps.margins import assert_margins_are_exact

SPEC = """\
name: a_x_b
type: crossmatch
left: {catalog: a}
right: {catalog: b}
radius_arcsec: 60
"""
BUILD = "missing_margin: build\n"


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
    with pytest.raises(SpecError, match="missing_margin: 'drop' does not fit; write 'build' or 'refuse'"):
        start(warehouse, "missing_margin: drop\n")


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
