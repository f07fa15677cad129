"""Margins of a version that is built whole, and of one that is published already."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.errors import CatalogNotFoundError, SpecError, StepError

from tests.steps import in_process
from tests.steps.margins import assert_margins_are_exact, stored_margin

pytestmark = pytest.mark.sampled(2)

MARGIN = "margin: {arcsec: [7200, 600]}"


@pytest.fixture(params=["hats", "hipscat"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ingested(place: Path, **spec: str) -> Catalog:
    in_process.write_source(place / "landing")
    spec_file = in_process.write_spec(place / "stars.yaml", f"{place}/landing/*.parquet", **spec)
    in_process.ingest(in_process.start(place / "warehouse", spec_file))
    return Catalog.open(place / "warehouse" / "catalogs" / "stars")


def test_margins_of_a_spec_are_exact(tmp_path: Path, layout: str) -> None:
    catalog = ingested(tmp_path, layout=layout, more=MARGIN)
    counts = assert_margins_are_exact(catalog)
    assert list(counts) == [7200.0, 600.0]
    assert counts[7200.0] > 5 * counts[600.0] > 0
    names = [margin.name for margin in catalog.metadata.margins]
    expected = ["main_7200arcs", "main_600arcs"] if layout == "hats" else ["margin_7200", "margin_600"]
    assert names == expected


def test_a_published_version_gets_margins_by_a_commit_of_their_own(tmp_path: Path, layout: str) -> None:
    before = ingested(tmp_path, layout=layout)
    catalog = before.build_margin(3600, 60.5)
    assert (catalog.version, catalog.metadata.parent) == (2, 1)
    assert catalog.metadata.groups == before.metadata.groups
    assert list(assert_margins_are_exact(catalog)) == [3600.0, 60.5]
    catalog.verify().raise_if_failed()
    assert catalog.build_margin(60.5).version == 2  # there is nothing to do
    more = catalog.build_margin(60.5, 7200)
    assert [margin.radius_arcsec for margin in more.metadata.margins] == [3600.0, 60.5, 7200.0]
    assert_margins_are_exact(more)
    more.verify().raise_if_failed()
    sums = (Path(more.uri) / "SHA256SUMS").read_text()
    for margin in more.metadata.margins:
        assert all(partition.path in sums for partition in margin.partitions or ())


def test_margins_built_later_are_those_of_a_spec(tmp_path: Path, layout: str) -> None:
    with_spec = ingested(tmp_path / "a", layout=layout, more=MARGIN)
    later = ingested(tmp_path / "b", layout=layout).build_margin(7200, 600)
    for ours, theirs in zip(later.metadata.margins, with_spec.metadata.margins, strict=True):
        assert [part.sha256 for part in ours.partitions or ()] == [
            part.sha256 for part in theirs.partitions or ()
        ]


def test_the_step_adds_margins_once_however_often_it_runs(tmp_path: Path) -> None:
    ingested(tmp_path)
    folder = in_process.start(tmp_path / "warehouse", tmp_path / "stars.yaml", "later")
    first = in_process.make_margins(folder, arcsec=[900])
    again = in_process.make_margins(folder, arcsec=[900])
    assert first.version == again.version == 2
    assert first.margin_rows == again.margin_rows
    other = in_process.start(tmp_path / "warehouse", tmp_path / "stars.yaml", "other")
    assert in_process.make_margins(other, arcsec=[900]).version is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "position",
    [
        "{ra: ra, dec: dec, frame: galactic}",
        "{ra: ra, dec: dec, unit: rad}",
    ],
)
def test_positions_are_taken_as_the_index_takes_them(tmp_path: Path, layout: str, position: str) -> None:
    table = in_process.write_source(tmp_path / "landing")
    if "rad" in position:
        for file in (tmp_path / "landing").iterdir():
            file.unlink()
        columns = {name: pa.array(np.radians(table[name].to_numpy())) for name in ("ra", "dec")}
        for name, values in columns.items():
            table = table.set_column(table.schema.get_field_index(name), name, values)
        pq.write_table(table, tmp_path / "landing" / "all.parquet")
    spec_file = in_process.write_spec(
        tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", layout=layout, more=MARGIN
    )
    spec_file.write_text(spec_file.read_text().replace("{ra: ra, dec: dec}", position))
    in_process.ingest(in_process.start(tmp_path / "warehouse", spec_file))
    catalog = Catalog.open(tmp_path / "warehouse" / "catalogs" / "stars")
    if layout == "hats":
        assert_margins_are_exact(catalog)
    else:  # the oracle wants degrees; the layout hats has told what the rows must be
        other = tmp_path / "hats"
        other.mkdir()
        spec = spec_file.read_text().replace("layout: hipscat", "layout: hats")
        (other / "stars.yaml").write_text(spec)
        in_process.ingest(in_process.start(other, other / "stars.yaml"))
        hats = Catalog.open(other / "catalogs" / "stars")
        for ours, theirs in zip(catalog.metadata.margins, hats.metadata.margins, strict=True):
            assert (ours.rows, ours.pixels) == (theirs.rows, theirs.pixels)


def test_margins_are_of_the_primary_group(tmp_path: Path, layout: str) -> None:
    groups = "column_groups: [{name: main, columns: [id, ra, dec]}, {name: light, columns: '*'}]\n"
    catalog = ingested(tmp_path, layout=layout, more=groups + MARGIN)
    assert_margins_are_exact(catalog)
    assert {margin.group for margin in catalog.metadata.margins} == {"main"}


def spelled_out(rows: pa.Table) -> pd.DataFrame:
    return rows.set_column(rows.schema.get_field_index("word"), "word", rows["word"].cast("str")).to_pandas()


def test_rows_of_any_type_are_in_margins_as_they_are_in_leaves(tmp_path: Path, layout: str) -> None:
    table = in_process.write_source(tmp_path / "landing", files=1)
    rng = np.random.default_rng(2)
    rows = table.num_rows
    words = pa.array(rng.choice(["a", "b", None], rows)).dictionary_encode()
    table = (
        table.append_column("word", words)
        .append_column("nan", pa.array(np.where(rng.uniform(size=rows) < 0.5, np.nan, 1.0)))
        .append_column("list", pa.array([[1.5] * (n % 3) if n % 7 else None for n in range(rows)]))
        .append_column("empty", pa.nulls(rows, pa.string()))
    )
    pq.write_table(table, tmp_path / "landing" / "part-0.parquet")
    spec_file = in_process.write_spec(
        tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", layout=layout, more=MARGIN
    )
    in_process.ingest(in_process.start(tmp_path / "warehouse", spec_file))  # verifies the margins, too
    catalog = Catalog.open(tmp_path / "warehouse" / "catalogs" / "stars")
    leaves = catalog.read().sort_by("id")
    for margin in catalog.metadata.margins:
        for stored in stored_margin(catalog, margin).values():
            found = stored.sort_by("id")
            expected = leaves.filter(pa.compute.is_in(leaves["id"], found["id"].combine_chunks()))
            assert spelled_out(found).equals(spelled_out(expected))


def test_many_tasks_and_little_blocks_make_the_same_files(tmp_path: Path) -> None:
    plain = ingested(tmp_path / "a").build_margin(3600)
    ingested(tmp_path / "b")
    folder = in_process.start(tmp_path / "b" / "warehouse", tmp_path / "b" / "stars.yaml", "later")
    in_process.make_margins(folder, arcsec=[3600], task_bytes=4096, block_bytes=512)
    cut = Catalog.open(tmp_path / "b" / "warehouse" / "catalogs" / "stars")
    [ours], [theirs] = cut.metadata.margins, plain.metadata.margins
    assert [part.sha256 for part in ours.partitions or ()] == [
        part.sha256 for part in theirs.partitions or ()
    ]


def test_a_version_that_is_rolled_back_to_has_its_margins(tmp_path: Path, layout: str) -> None:
    ingested(tmp_path, layout=layout)
    catalog = Catalog.open(tmp_path / "warehouse" / "catalogs" / "stars")
    second = catalog.build_margin(3600)
    assert catalog.rollback(1).metadata.margins == ()
    back = second.rollback(2)
    assert back.metadata.margins == second.metadata.margins
    back.verify().raise_if_failed()
    assert_margins_are_exact(back)


def test_a_vacuum_leaves_margins_that_are_named_and_takes_the_others(tmp_path: Path, layout: str) -> None:
    first = ingested(tmp_path, layout=layout)
    second = first.build_margin(3600)
    third = second.build_margin(60)
    third.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert third.versions() == [3]
    third.verify().raise_if_failed()
    assert_margins_are_exact(third)
    first_again = third.build_margin(120)
    in_process.ingest(
        in_process.start(tmp_path / "warehouse", tmp_path / "stars.yaml", "anew", threshold="300 rows")
    )
    newest = Catalog.open(first_again.uri)
    assert newest.metadata.margins == ()  # mode replace makes what its spec says
    newest.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert not list(Path(newest.uri).rglob("*arcs*"))
    assert not list(Path(newest.uri).rglob("margin_*"))


@pytest.mark.parametrize("arcsec", [0, -1, 36_001, float("nan"), float("inf")])
def test_distances_out_of_bounds_are_refused(tmp_path: Path, arcsec: float) -> None:
    catalog = ingested(tmp_path)
    with pytest.raises(SpecError, match="arcsec"):
        catalog.build_margin(arcsec)
    assert catalog.versions() == [1]


def test_a_margin_needs_the_positions_in_the_first_group(tmp_path: Path) -> None:
    groups = "column_groups: [{name: light, columns: [id, mag]}, {name: main, columns: '*'}]\n"
    catalog = ingested(tmp_path, layout="hipscat", more=groups)
    with pytest.raises(SpecError, match="lacks position column dec, ra"):
        catalog.build_margin(10)
    assert catalog.versions() == [1]


def test_nothing_published_has_no_margin_to_build(tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing")
    spec_file = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    folder = in_process.start(tmp_path / "warehouse", spec_file)
    with pytest.raises(CatalogNotFoundError, match="ingest the catalog first"):
        in_process.make_margins(folder, arcsec=[10])


def test_margins_that_were_not_made_are_not_published(tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing")
    spec_file = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet", more=MARGIN)
    folder = in_process.start(tmp_path / "warehouse", spec_file)
    for step in (
        in_process.freeze,
        in_process.count,
        in_process.make_plan,
        in_process.write_leaves,
    ):
        step(folder)
    with pytest.raises(StepError, match="run the margin step first"):
        in_process.check(folder)
