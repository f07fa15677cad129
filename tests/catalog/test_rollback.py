"""Rollback: the old content under a new number; refused where it makes no sense; safe beside others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hipslake import Catalog
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.upkeep.restored_version import roll_back
from hipslake.errors import CatalogNotFoundError, ConflictError, SpecError, VersionNotFoundError
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import HEARTBEAT, claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import Pin, pinned_versions, pinning_writes

from tests.catalog.leftovers import orphans
from tests.catalog.publishing import publish
from tests.steps import in_process
from tests.steps.nights import Survey
from tests.system.whole import contents


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    """Three nights, three versions."""
    survey = Survey(tmp_path)
    for number in range(3):
        survey.night(number)
    return survey


def test_the_content_of_the_old_version_is_the_newest_again(survey: Survey) -> None:
    old = Catalog.open(survey.root, version=2)
    before = old.read()
    catalog = survey.catalog.rollback(2)
    assert (catalog.version, catalog.metadata.parent, catalog.metadata.restored) == (4, 3, 2)
    assert catalog.versions() == [1, 2, 3, 4]
    for found in (catalog, survey.catalog):
        assert found.version == 4
        assert found.read().equals(before)
        found.verify().raise_if_failed()
    assert catalog.increments == old.increments
    assert catalog.metadata.write_id != old.metadata.write_id
    assert orphans(survey.root) == set()
    assert pinning_writes(catalog.storage) == []


def test_hats_readers_are_shown_the_old_content(survey: Survey) -> None:
    before = Catalog.open(survey.root, version=1).read().num_rows
    catalog = survey.catalog.rollback(1)
    write = survey.root / catalog.metadata.write_id
    assert catalog.metadata.write_id in (survey.root / "collection.properties").read_text()
    assert f"hats_nrows={before}\n" in (write / "main" / "hats.properties").read_text()
    assert sorted(path.name for path in write.rglob("Npix=*.parquet"))


def test_nights_go_on_from_what_was_brought_back(survey: Survey) -> None:
    gone = survey.landed.pop(2)
    survey.catalog.rollback(2)
    survey.assert_holds_what_landed()
    report = survey.night(3)
    survey.assert_holds_what_landed()
    assert survey.catalog.metadata.restored is None
    survey.land(2, gone)
    again = survey.append(2)
    survey.assert_holds_what_landed()
    ordinals = [increment.ordinal for increment in survey.catalog.increments]
    assert ordinals == [0, 1, report.ordinal, again.ordinal]
    assert 2 not in ordinals  # it was given away once, and rows of it lie in version 3


@pytest.mark.parametrize(
    ("version", "error", "message"),
    [
        (9, VersionNotFoundError, "version 9 does not exist; there are: 2, 3"),
        (0, VersionNotFoundError, "version 0 does not exist"),
        (-1, VersionNotFoundError, "version -1 does not exist"),
        (1, VersionNotFoundError, "version 1 was vacuumed; there are: 2, 3"),
        (3, SpecError, "version 3 is the newest one; give an older version"),
    ],
)
def test_nonsense_is_refused_and_leaves_the_catalog_as_it_was(
    survey: Survey, version: int, error: type[Exception], message: str
) -> None:
    VersionLog(Storage.at(survey.root)).entomb(1)
    before = contents(survey.root)
    with pytest.raises(error, match=message):
        survey.catalog.rollback(version)
    assert contents(survey.root) == before


def test_where_nothing_is_published_there_is_nothing_to_roll_back(tmp_path: Path) -> None:
    with pytest.raises(CatalogNotFoundError, match="nothing is published"):
        roll_back(Storage.at(tmp_path), 1)


def test_a_rollback_that_is_done_again_finds_its_own_commit(survey: Survey) -> None:
    storage = Storage.at(survey.root)
    write_id = claim_write(storage, datetime.now(UTC))
    first = roll_back(storage, 1, write_id=write_id)
    with Pin(storage, write_id) as pin:  # as if it had been killed right after its commit
        storage.write(f"{write_id}/{HEARTBEAT}", b"{}")
        pin.hold(1)
        assert roll_back(storage, 1, write_id=write_id) == first
        assert pinned_versions(storage) == set()
        assert not storage.exists(f"{write_id}/{HEARTBEAT}")
    assert survey.catalog.versions() == [1, 2, 3, 4]


def test_what_others_commit_meanwhile_is_rolled_back_too(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Catalog.open(survey.root, version=1).read()
    commit, others = VersionLog.commit, [3, 4]

    def overtaken(log: VersionLog, number: int, data: bytes, write_id: str, **more: Any) -> str:
        if others:
            survey.night(others.pop())  # and while that one commits, the other one
        return commit(log, number, data, write_id, **more)

    monkeypatch.setattr(VersionLog, "commit", overtaken)
    catalog = survey.catalog.rollback(1)
    assert (catalog.version, catalog.metadata.parent) == (6, 5)
    assert catalog.read().equals(before)


def test_who_is_never_first_gives_up(survey: Survey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VersionLog, "commit", lambda *_, **__: "conflict")
    with pytest.raises(ConflictError, match="committed first 100 times"):
        survey.catalog.rollback(1)
    assert survey.catalog.versions() == [1, 2, 3]


def test_a_version_that_is_vacuumed_just_before_it_is_pinned_is_refused(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold = Pin.hold

    def late(pin: Pin, number: int) -> bytes:
        VersionLog(Storage.at(survey.root)).entomb(number)
        return hold(pin, number)

    monkeypatch.setattr(Pin, "hold", late)
    with pytest.raises(VersionNotFoundError, match="version 1 was vacuumed"):
        survey.catalog.rollback(1)
    assert survey.catalog.versions() == [2, 3]
    assert pinned_versions(Storage.at(survey.root)) == set()


def test_every_layout_and_several_groups_come_back(tmp_path: Path) -> None:
    for name, layout in (("a", "hats"), ("b", "hipscat")):
        place = tmp_path / name
        in_process.write_source(place / "landing")
        more = "column_groups:\n  - {name: main, columns: [id, ra, dec]}\n  - {name: light}"
        spec = place / "stars.yaml"
        for run, threshold in (("first", "400 rows"), ("second", "150 rows")):
            in_process.write_spec(
                spec, f"{place}/landing/*.parquet", threshold=threshold, layout=layout, more=more
            )
            in_process.ingest(in_process.start(place / "warehouse", spec, run))
        root = place / "warehouse" / "catalogs" / "stars"
        pixels = Catalog.open(root, version=1).pixels
        catalog = Catalog.open(root).rollback(1)
        catalog.verify().raise_if_failed()
        assert catalog.pixels == pixels


def test_across_a_change_of_layout_readers_get_what_the_old_layout_has(tmp_path: Path) -> None:
    in_process.write_source(tmp_path / "landing")
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{tmp_path}/landing/*.parquet")
    in_process.ingest(in_process.start(tmp_path / "warehouse", spec, "first"))
    in_process.ingest(in_process.start(tmp_path / "warehouse", spec, "second", layout="hipscat"))
    root = tmp_path / "warehouse" / "catalogs" / "stars"
    assert not (root / "collection.properties").exists()
    hats = Catalog.open(root).rollback(1)
    assert hats.metadata.write_id in (root / "collection.properties").read_text()
    hipscat = hats.rollback(2)
    assert not (root / "collection.properties").exists()
    for catalog in (hats, hipscat):
        catalog.verify().raise_if_failed()


def test_metadata_that_cannot_be_read_is_not_brought_back(tmp_path: Path) -> None:
    published = publish(tmp_path)
    storage, metadata = published.storage, published.metadata
    second = metadata.model_copy(update={"version": 2, "write_id": "20261121T0400-beef"})
    VersionLog(storage).commit(2, second.to_json(), second.write_id)
    newer = metadata.to_json().replace(b'"format_version": 2', b'"format_version": 99')
    storage.write("_versions/00000001.json", newer)
    with pytest.raises(Exception, match="version 1: format version 99"):
        Catalog.open(storage.root).rollback(1)
    assert CatalogMetadata.from_json(VersionLog(storage).read()).version == 2
