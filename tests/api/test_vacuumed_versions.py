"""Reads of versions that were vacuumed: they say so, when, by which vacuum, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hipslake
import pytest
from hipslake.errors import HipslakeError, VerificationError, VersionNotFoundError
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake.versions.log_files import Vacuuming, tombstone, vacuuming_of, version_path

from tests.api.stars_spec import SPEC
from tests.steps.nights import night_rows

READS: dict[str, Callable[[hipslake.Catalog], Any]] = {
    "read": lambda catalog: catalog.read(),
    "tables": lambda catalog: list(catalog.tables(region="cone 80 20 5deg")),
    "a scan": lambda catalog: catalog.scan(["id"], "mag < 18").to_arrow(),
    "batches": lambda catalog: list(catalog.scan().to_batches()),
    "head": lambda catalog: catalog.head(3),
    "sample": lambda catalog: catalog.sample(3, columns=["id"]),
    "a partition": lambda catalog: next(catalog.partitions()).to_pandas(),
    "count": lambda catalog: catalog.scan(filters="mag < 18").count(),
    "statistics": lambda catalog: catalog.statistics(),
    "exact statistics": lambda catalog: catalog.statistics(exact=True),
    "histogram": lambda catalog: catalog.histogram("mag"),
    "functions": lambda catalog: catalog.map_partitions(lambda rows: rows),
    "find": lambda catalog: catalog.find("id", [7]),
    "a join": lambda catalog: catalog.join(catalog, "id", suffixes=("", "_2")),
    "a dataset": lambda catalog: catalog.scan().to_dataset().to_table(),
    "a cross-match": lambda catalog: catalog.crossmatch(catalog, radius_arcsec=9, min_radius_arcsec=1),
    "deep coverage": lambda catalog: catalog.coverage(20),
    "coverage": lambda catalog: catalog.coverage(3),
}


@pytest.fixture(scope="module")
def vacuumed(tmp_path_factory: pytest.TempPathFactory) -> hipslake.Catalog:
    """A catalog at its first version, which was vacuumed after it was opened."""
    place = tmp_path_factory.mktemp("vacuumed")
    spec = SPEC | {"index": ["id"], "co_partitioned": ["id"], "margin": {"arcsec": [60]}}
    first = hipslake.ingest(night_rows(0, 2000), spec=spec, warehouse=place, spark=False)
    first = hipslake.Catalog.open(first.uri)
    hipslake.ingest(night_rows(0, 2000).slice(1), spec=spec, warehouse=place, spark=False)
    outcome = first.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    assert outcome.vacuumed == (1,)
    return first


@pytest.mark.sampled(5)
@pytest.mark.parametrize("read", READS)
def test_whatever_reads_a_vacuumed_version_says_so(vacuumed: hipslake.Catalog, read: str) -> None:
    with pytest.raises(VersionNotFoundError) as told:
        READS[read](vacuumed)
    today = datetime.now(UTC)
    message = str(told.value)
    assert f"version 1 was vacuumed on {today:%Y-%m-%d}" in message or today.hour == 0
    assert "keeps the newest 1 version, and others for 0 days" in message
    assert "there are: 2" in message
    assert "opened before that" in message
    assert "keep_versions" in message
    assert not isinstance(told.value, VerificationError)


def test_to_open_it_says_so_too(vacuumed: hipslake.Catalog) -> None:
    with pytest.raises(
        VersionNotFoundError, match=r"version 1 was vacuumed on 2.* UTC, by a vacuum that keeps"
    ):
        hipslake.Catalog.open(vacuumed.uri, 1)
    assert hipslake.Catalog.open(vacuumed.uri, 2).verify(all=True).ok


def test_a_file_that_is_lost_otherwise_is_missing(tmp_path: Path) -> None:
    catalog = hipslake.ingest(night_rows(0, 2000), spec=SPEC, warehouse=tmp_path, spark=False)
    for leaf in Path(catalog.uri).rglob("Npix=*.parquet"):
        leaf.unlink()
    for read in (READS["read"], READS["statistics"], READS["sample"]):
        with pytest.raises(VerificationError, match="is missing; restore it"):
            read(catalog)


def test_what_the_log_does_not_know_is_left_out(tmp_path: Path) -> None:
    first = hipslake.ingest(night_rows(0, 2000), spec=SPEC, warehouse=tmp_path, spark=False)
    hipslake.ingest(night_rows(0, 2000).slice(1), spec=SPEC, warehouse=tmp_path, spark=False)
    VersionLog(Storage.at(first.uri)).entomb(1)  # as older libraries did
    first.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    with pytest.raises(VersionNotFoundError, match=r"version 1 was vacuumed; there are: 2\. It was opened"):
        first.read()
    catalog = Path(first.uri)
    (catalog / version_path(1)).unlink()  # or the log was left behind when the catalog was copied
    with pytest.raises(HipslakeError, match="is missing; restore it"):
        first.read()


def test_tombstones_say_how_and_verify_holds_them_to_it(vacuumed: hipslake.Catalog, tmp_path: Path) -> None:
    vacuuming = Vacuuming(datetime(2026, 11, 26, 4, 30, 1, 5, UTC), 3, 0.5)
    data = tombstone(2, "write", vacuuming)
    assert vacuuming_of(json.loads(data)) == vacuuming
    assert str(vacuuming) == (
        "on 2026-11-26 04:30 UTC, by a vacuum that keeps the newest 3 versions, and others for 0.5 days "
        "after the next one came"
    )
    assert vacuuming_of(json.loads(tombstone(2, "write"))) is None
    first = hipslake.ingest(night_rows(0, 2000), spec=SPEC, warehouse=tmp_path, spark=False)
    hipslake.ingest(night_rows(0, 2000).slice(1), spec=SPEC, warehouse=tmp_path, spark=False)
    first.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    stone = Path(first.uri) / version_path(1)
    document = json.loads(stone.read_text())
    for changed in ({"vacuumed": "soon"}, {"keep_days": "two"}, {"more": 1}):
        stone.write_text(json.dumps(document | changed))
        problems = hipslake.Catalog.open(first.uri).verify(all=True).problems
        assert ["but not as a vacuum wrote it" in each.message for each in problems] == [True], changed
        with pytest.raises(VersionNotFoundError, match="version 1 was vacuumed"):
            hipslake.Catalog.open(first.uri, 1)
