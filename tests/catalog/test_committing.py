"""The newest version, on which the next one is committed: found whatever others do meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hipslake.catalog.committing import committed_before, newest_version
from hipslake.storage import Storage
from hipslake.versions.heartbeat import claim_write
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import Pin, pinned_versions

from tests.catalog.vacuuming import vacuum
from tests.steps.nights import Survey


@pytest.mark.parametrize("pinned", [False, True])
def test_a_version_that_is_overtaken_and_vacuumed_is_not_taken_for_the_newest(
    nights: Survey, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    storage = Storage.at(nights.root)
    vacuum(nights)
    newest, stale = VersionLog.newest, [2]
    monkeypatch.setattr(VersionLog, "newest", lambda log: stale.pop() if stale else newest(log))
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
