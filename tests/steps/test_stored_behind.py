"""Files of a catalog in a store that go with those of a run, and what ends with the run."""

from __future__ import annotations

import uuid
from contextlib import suppress

import pytest
from hipslake.errors import NotWritableError
from hipslake.steps.run_storage import own_run, run_storage
from hipslake.steps.stored_behind import flush, settled, stored_with_next
from hipslake.storage.folder import Storage
from hipslake.storage.objects import ObjectFiles


@pytest.fixture
def uri() -> str:
    return f"memory://{uuid.uuid4().hex}/run"


def test_files_of_a_catalog_that_go_with_the_next_are_stored_with_them(uri: str) -> None:
    plain = Storage.at(f"memory://{uuid.uuid4().hex}")
    with own_run(uri):
        folder = run_storage(uri)
        catalog = stored_with_next(plain, folder)
        catalog.write("a", b"a")
        assert not plain.is_file("a")
        flush(folder)
        settled(folder)
        assert plain.read("a") == b"a"
        catalog.write("b", b"b")
        settled(folder)  # before a commit
        assert plain.read("b") == b"b"
    assert stored_with_next(plain, Storage.at(uri)) is plain


def test_a_file_of_a_catalog_that_could_not_be_stored_is_told(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(files: ObjectFiles, uri: str, data: object, *, durable: bool) -> None:
        raise NotWritableError(f"{uri}: no")

    with suppress(NotWritableError), own_run(uri):
        folder = run_storage(uri)
        monkeypatch.setattr(ObjectFiles, "write", refused)
        stored_with_next(Storage.at(f"memory://{uuid.uuid4().hex}"), folder).write("a", b"a")
        with pytest.raises(NotWritableError):
            settled(folder)


def test_what_is_known_ends_with_the_run_also_where_it_fails(uri: str) -> None:
    ended = []

    class Known:
        def end(self) -> None:
            ended.append(self)

    with suppress(KeyError), own_run(uri) as kept:
        assert kept is not None
        assert kept.notes.standing(Known) is None
        known = kept.notes.of(Known, Known)
        assert kept.notes.of(Known, Known) is kept.notes.standing(Known) is known
        raise KeyError
    assert ended == [known]
