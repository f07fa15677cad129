"""HiPS in an object store: no links, a sign until all is there, and the same rules for what goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hipslake.errors import NotWritableError
from hipslake.exports.export_folder import UNFINISHED
from hipslake.steps.hips import hips_versions
from hipslake.steps.hips import run as hips_run
from hipslake.storage.folder import Storage

from tests.steps.hips.hips_reader import read_hips, read_properties
from tests.steps.hips.making_hips import asked, published, run
from tests.steps.hips.test_hips import some_sky


def fetched(uri: str, folder: Path) -> Path:
    """A copy of what lies in a store, on disk."""
    storage = Storage.at(uri)
    for entry in storage.list(recursive=True):
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(storage.read(entry.path))
    return folder


def folders(output: Storage) -> list[str]:
    return [entry.path for entry in output.list() if entry.is_dir]


def test_a_store_has_a_list_and_no_link(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = f"{bucket}/hips"
    published(warehouse, some_sky(60))
    first = run(asked(warehouse, order_by="mag", allsky_rows=5))
    output = Storage.at(f"{warehouse}/exports/hips/stars")
    assert folders(output) == [first.output.rpartition("/")[2]]
    served = fetched(output.uri(), tmp_path / "a")
    assert len(read_hips(served / folders(output)[0]).rows) == 60
    assert read_properties(served / "hipslist")["hips_service_url"] == first.output
    assert not output.exists("current")
    assert run(asked(warehouse, "again", order_by="mag", allsky_rows=5)).unchanged

    def dies(*given: Any) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(hips_run.NewFolder, "give_up", lambda self: None)
        killed.setattr(hips_run, "moc_fits", dies)
        with pytest.raises(KeyboardInterrupt):
            run(asked(warehouse, "killed"))
    (left,) = set(folders(output)) - {first.output.rpartition("/")[2]}
    assert output.is_file(f"{left}/{UNFINISHED}")
    assert [each.name for each in hips_versions.finished_hips(output)] == [first.output.rpartition("/")[2]]
    other = run(asked(warehouse, "other", descending=True))
    assert other.removed == (first.output.rpartition("/")[2],)
    assert left in folders(output)  # somebody may be at work there
    monkeypatch.setattr(hips_versions, "_DEAD_AFTER", -hips_versions._DEAD_AFTER)
    last = run(asked(warehouse, "last", descending=True))
    assert (last.unchanged, last.removed) == (True, (left,))
    assert folders(output) == [other.output.rpartition("/")[2]]


def test_what_another_run_writes_there_is_not_touched(bucket: str) -> None:
    warehouse = f"{bucket}/hips-others"
    published(warehouse, some_sky(50))
    request = asked(warehouse)
    name = hips_versions.folder_name(1, request.run_uri)
    output = Storage.at(f"{warehouse}/exports/hips/stars")
    output.write(f"{name}/{UNFINISHED}", b"another")
    with pytest.raises(NotWritableError, match=f"{name} exists"):
        run(request)
    assert output.read(f"{name}/{UNFINISHED}") == b"another"
