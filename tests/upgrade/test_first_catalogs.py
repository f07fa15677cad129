"""Catalogs as the code of the first ingest published them, under the code of today."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.specs.catalog_spec import Unchanged
from hipslake.steps.upkeep.hats_view import show_newest

from tests.catalog.leftovers import missing, orphans
from tests.peers.running import run_peer
from tests.readers.outside import assert_current_is_newest, assert_current_is_whole
from tests.steps.margins import assert_margins_are_exact
from tests.steps.nights import Survey
from tests.upgrade.unpacked import landed, unpacked

SPECS = {
    "stars": """\
position: {ra: ra, dec: dec, epoch: 2016.0}
threshold: 200 rows""",
    "grouped": """\
position: {ra: ra, dec: dec}
layout: hipscat
column_groups:
  - {name: main, columns: [id, ra, dec], threshold: 12 KiB}
  - {name: details, columns: "*", threshold: 300 rows}""",
}
NIGHT = """\
name: {name}
mode: append
source: {{uri: "{place}/landing/night={{{{ night }}}}/*.parquet", format: parquet}}
mapping_order: 6
{more}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return unpacked("first_catalogs", tmp_path)


@pytest.fixture(params=list(SPECS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Grown(Survey):
    """One of the catalogs, to which nights come."""

    def __init__(self, place: Path, name: str) -> None:
        super().__init__(place, spec_text=NIGHT.format(name=name, place=place, more=SPECS[name]))
        self.name = name

    @property
    def spec(self) -> Path:
        path = self.place / f"{self.name}.yaml"
        path.write_text(self.spec_text)
        return path

    @property
    def root(self) -> Path:
        return self.place / "warehouse" / "catalogs" / self.name


def first_rows(place: Path) -> pa.Table:
    """What the first ingest published: all rows with a place on the sky."""
    rows = landed(place, "stars").sort_by("id")
    return rows.filter(pa.array(np.isfinite(rows["dec"].to_numpy())))


def rows_of(catalog: Catalog) -> pa.Table:
    return catalog.read().select(["id", "ra", "dec", "mag", "name"]).sort_by("id").combine_chunks()


def night(number: int, rows: int = 200) -> pa.Table:
    """Rows of the same columns, some in the cluster."""
    rng = np.random.default_rng(number)
    ra, dec = rng.uniform(0, 360, rows), rng.uniform(-60, 60, rows)
    ra[: rows // 2], dec[: rows // 2] = rng.normal(80, 1, rows // 2), rng.normal(30, 1, rows // 2)
    ids = 1_000_000 * (number + 1) + np.arange(rows)
    return pa.table({"id": ids, "ra": ra, "dec": dec, "mag": rng.normal(12, 2, rows), "name": ["new"] * rows})


def test_every_version_opens_and_verifies(place: Path, name: str) -> None:
    root = place / "warehouse" / "catalogs" / name
    newest = Catalog.open(root)
    assert newest.versions() == ([1, 2] if name == "stars" else [1])
    for number in newest.versions():
        catalog = Catalog.open(root, version=number)
        catalog.verify().raise_if_failed()
        assert rows_of(catalog).equals(first_rows(place).combine_chunks())
    metadata = newest.metadata
    assert (metadata.rows_read, metadata.rows_rejected, metadata.total_rows) == (1500, 2, 1498)
    [increment] = metadata.increments
    assert increment.key is None
    assert sum(increment.cells(newest.storage)["rows"].to_pylist()) == 1498
    assert metadata.source_files(newest.storage)["rows"].to_pylist() == [500, 500, 500]
    near = newest.read(region="cone 80 30 0.5deg")
    assert 0 < len(near) < 500


def test_what_is_read_is_written_as_today(place: Path, name: str) -> None:
    metadata = Catalog.open(place / "warehouse" / "catalogs" / name).metadata
    again = json.loads(metadata.to_json())
    assert "sources" not in again
    assert CatalogMetadata.from_json(metadata.to_json()) == metadata


def test_leaves_that_a_sidecar_lists_are_found(place: Path, name: str) -> None:
    root = place / "warehouse" / "catalogs" / name
    path = root / "_versions" / "00000001.json"
    document, before = json.loads(path.read_text()), Catalog.open(root, version=1)
    for group in document["groups"]:
        rows = group.pop("partitions")
        sidecar = root / document["write_id"] / "_sidecars" / f"partitions_{group['name']}.parquet"
        sidecar.parent.mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, PARTITION_SCHEMA), sidecar)
        group["sidecar"] = {
            "path": str(sidecar.relative_to(root)),
            "rows": len(rows),
            "sha256": hashlib.sha256(sidecar.read_bytes()).hexdigest(),
        }
    path.write_text(json.dumps(document))
    after = Catalog.open(root, version=1)
    assert after.read().equals(before.read())
    [increment], [listed] = after.metadata.increments, before.metadata.increments
    assert increment.cells(after.storage).equals(listed.cells(before.storage))
    assert CatalogMetadata.from_json(after.metadata.to_json()) == after.metadata


@pytest.mark.sampled(2)
def test_nights_come_to_it(place: Path, name: str) -> None:
    survey = Grown(place, name)
    for number in range(2):
        survey.land(number, night(number))
        survey.append(number)
    expected = pa.concat_tables([first_rows(place), night(0), night(1)]).sort_by("id")
    catalog = survey.catalog
    catalog.verify().raise_if_failed()
    assert rows_of(catalog).equals(expected.combine_chunks())
    assert_current_is_whole(survey.root)
    survey.land(0, night(0).slice(0, 30))
    survey.append(0)
    assert survey.catalog.read().num_rows == 1498 + 30 + 200
    assert rows_of(Catalog.open(survey.root, version=1)).equals(first_rows(place).combine_chunks())
    assert_current_is_whole(survey.root)
    show_newest(survey.catalog.storage, Unchanged.LINK)
    assert_current_is_newest(survey.root)
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.catalog.verify().raise_if_failed()
    assert missing(survey.root) == set()
    assert orphans(survey.root) == set()


def test_it_gets_margins_and_is_matched_and_exported(place: Path) -> None:
    survey = Grown(place, "stars")
    stars = survey.catalog.build_margin(3600)
    assert_margins_are_exact(stars)
    survey.spec_text += "margin: {arcsec: [3600]}\n"
    survey.land(0, night(0))
    survey.append(0)
    grown = survey.catalog
    assert_margins_are_exact(grown)
    other = Catalog.open(place / "warehouse" / "catalogs" / "grouped")
    matched = other.crossmatch(grown, radius_arcsec=0.1, columns=["id"], other_columns=["id"])
    here, there = (name for name in matched.column_names if name.startswith("id"))
    assert matched[here].to_pylist() == matched[there].to_pylist()
    assert len(matched) == 1498
    grown.export(place / "all.parquet")
    assert sorted(pq.read_table(place / "all.parquet")["id"].to_pylist()) == sorted(
        grown.read()["id"].to_pylist()
    )
    back = grown.rollback(1)
    assert rows_of(back).equals(first_rows(place).combine_chunks())


@pytest.mark.sampled(3)
def test_lsdb_opens_it_before_and_after(place: Path, hats_python: str) -> None:
    survey = Grown(place, "stars")
    shutil.copytree(survey.root, place / "before", symlinks=True)
    survey.land(0, night(0))
    survey.append(0)
    show_newest(survey.catalog.storage, Unchanged.LINK)
    before, after = read_by_lsdb(hats_python, place / "before", survey.root)
    assert before == first_rows(place)["id"].to_pylist()
    assert after == sorted(before + night(0)["id"].to_pylist())


def read_by_lsdb(python: str, *roots: Path) -> list[list[int]]:
    """The ids of some catalogs."""
    script = (
        "import sys, lsdb; "
        "print([sorted(lsdb.open_catalog(root).compute()['id'].tolist()) for root in sys.argv[1:]])"
    )
    found: list[list[int]] = json.loads(run_peer(python, "-c", script, *roots).splitlines()[-1])
    return found
