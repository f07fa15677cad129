"""The newest version, on which the next one is committed: found whatever others do meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hipslake.catalog.committing import commit_next, committed_before, newest_version
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.errors import InputError
from hipslake.storage.folder import Storage
from hipslake.versions.heartbeat import claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import Pin, pinned_versions
from hipslake.versions.version_write import writing

from tests.catalog.vacuuming import vacuum
from tests.steps.nights import Survey


@pytest.mark.parametrize("pinned", [False, True])
def test_a_version_that_is_overtaken_and_vacuumed_is_not_taken_for_the_newest(
    nights: Survey, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    storage = Storage.at(nights.root)
    vacuum(nights)
    newest, stale = VersionLog.newest, [2]
    monkeypatch.setattr(VersionLog, "newest", lambda log, look: stale.pop() if stale else newest(log, look))
    with Pin(storage, claim_write(storage, datetime.now(UTC))) as pin:
        found = newest_version(storage, pin if pinned else None)
        assert found is not None
        assert found.version == 3
        assert pinned_versions(storage) == ({3} if pinned else set())
    assert stale == []


def test_where_nothing_is_published_there_is_no_newest_version(tmp_path: Path) -> None:
    assert newest_version(Storage.at(tmp_path)) is None
    assert committed_before(Storage.at(tmp_path), ["20260101T0000-dead"]) is None


def test_a_commit_is_known_also_after_its_version_was_vacuumed(nights: Survey) -> None:
    storage = Storage.at(nights.root)
    write_id = nights.catalog.increments[0].write_id
    vacuum(nights)
    found = committed_before(storage, ["20260101T0000-dead", write_id])
    assert found == nights.catalog.metadata


def test_a_write_whose_draft_no_longer_fits_after_others_were_first_leaves_nothing(nights: Survey) -> None:
    storage = Storage.at(nights.root)
    newest = newest_version(storage)
    assert newest is not None
    drafted: list[int] = []

    def draft(write_id: str) -> CatalogMetadata:
        drafted.append(newest.version)
        if len(drafted) > 1:
            raise InputError("a file was added by those who were first")
        first = newest.followed_by(claim_write(storage, datetime.now(UTC)))
        assert VersionLog(storage).commit(first.version, first.to_json(), first.write_id) == "committed"
        return newest.followed_by(write_id)

    def work() -> None:
        with writing(storage) as write:
            tried.append(write.id)
            storage.write(f"{write.id}/main/leaf.parquet", b"whole")
            commit_next(storage, write.heartbeat, lambda: draft(write.id))

    tried: list[str] = []
    with pytest.raises(InputError):
        work()
    assert len(drafted) == 2
    assert not storage.exists(tried[0])
