"""The same operations on a disk, in memory, and in a store by both of its clients have the same outcome."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
import pytest
from hipslake.storage import folder
from hipslake.storage.folder import Storage
from hipslake.storage.objects import ObjectFiles
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.stores.ranges import read_ranges
from tests.stores.s3_server import S3Server

FOLDERS = ("", "night", "night/deep", "a%20b é", "q?x=1&y#z")
NAMES = ("one", "two.parquet", "three [4]*", "ö+~'\"{}", ".dotted")
PATHS = st.builds(
    lambda at, name: f"{at}/{name}".lstrip("/"), st.sampled_from(FOLDERS), st.sampled_from(NAMES)
)
DATA = st.binary(max_size=60)
Operation = Callable[[Storage], Any]


def _range(path: str, start: int, size: int) -> tuple[str, int, int]:
    return path, start, start + size


def _written(storage: Storage, path: str, pieces: list[bytes], fails: bool) -> str:
    try:
        with storage.open(path, "wb") as file:
            for piece in pieces:
                file.write(piece)
            if fails:
                raise KeyError("of the block")
    except KeyError:
        return "failed"
    return "written"


def _created(storage: Storage, path: str, data: bytes) -> str:
    marks: list[str] = []
    with storage.creating(path, marks.append) as file:
        file.write(data)
    kept = None if storage.root.startswith("memory") else marks[0]
    return "known again" if storage.mark_of(path) == kept else "not known again"


def _files(storage: Storage, at: str, *, deep: bool) -> list[tuple[str, int]]:
    """A listing; of a disk and of memory without folders that may be empty."""
    return [(each.path, each.size) for each in storage.list(at, recursive=deep) if not each.is_dir]


RANGES = st.builds(_range, PATHS, st.integers(0, 70), st.integers(1, 70))
READS: dict[str, st.SearchStrategy[Operation]] = {
    "read": PATHS.map(lambda path: lambda storage: storage.read(path)),
    "open": PATHS.map(lambda path: lambda storage: storage.open(path).read()),
    "arrow": PATHS.map(lambda path: lambda storage: storage.arrow_file(path).read()),
    "range": RANGES.map(lambda asked: lambda storage: storage.read_range(*asked)),
    "ranges": st.lists(RANGES, max_size=5).map(lambda asked: lambda storage: read_ranges(storage, asked)),
    "tail": st.builds(
        lambda path, most: lambda storage: storage.read_tail(path, most), PATHS, st.integers(1, 70)
    ),
    "entry": PATHS.map(lambda path: lambda storage: storage.entry(path)[:2]),
    "exists": PATHS.map(lambda path: lambda storage: storage.exists(path)),
    "is file": st.one_of(PATHS, st.sampled_from(FOLDERS[1:])).map(
        lambda path: lambda storage: storage.is_file(path)
    ),
    "list": st.builds(
        lambda at, deep: lambda storage: _files(storage, at, deep=deep),
        st.sampled_from(FOLDERS),
        st.booleans(),
    ),
    "glob": st.sampled_from(["*", "**", "*/one", "night/**/*.parquet", "*/*", "**/.dotted"]).map(
        lambda pattern: lambda storage: [each.path for each in storage.glob(pattern)]
    ),
    "same": st.builds(lambda one, other: lambda storage: _both(storage, one, other), PATHS, PATHS),
}
WRITES: dict[str, st.SearchStrategy[Operation]] = {
    "write": st.builds(lambda path, data: lambda storage: storage.write(path, data), PATHS, DATA),
    "write all": st.dictionaries(PATHS, DATA, max_size=4).map(
        lambda files: lambda storage: storage.write_all(files)
    ),
    "block": st.builds(
        lambda path, pieces, fails: lambda storage: _written(storage, path, pieces, fails),
        PATHS,
        st.lists(DATA, max_size=3),
        st.booleans(),
    ),
    "create": st.builds(lambda path, data: lambda storage: storage.create(path, data), PATHS, DATA),
    "creating": st.builds(lambda path, data: lambda storage: _created(storage, path, data), PATHS, DATA),
    "copy": st.builds(
        lambda source, target: lambda storage: storage.copy(source, target) if source != target else None,
        PATHS,
        PATHS,
    ),
    "delete": PATHS.map(lambda path: lambda storage: storage.delete(path)),
    "delete all": st.lists(PATHS, max_size=4).map(lambda paths: lambda storage: storage.delete_all(paths)),
    "delete tree": st.one_of(PATHS, st.sampled_from(FOLDERS[1:])).map(
        lambda path: lambda storage: _tree_deleted(storage, path)
    ),
}
SEQUENCES = st.lists(
    st.one_of(*[st.tuples(st.just(name), one) for name, one in (READS | WRITES).items()]), max_size=25
)


def _both(storage: Storage, one: str, other: str) -> bool:
    """Whether two files are there, asked by way of their likeness; what it is differs with the place."""
    storage.is_same_file(one, other)
    return True


def _tree_deleted(storage: Storage, path: str) -> None:
    if storage.is_local and storage.is_file(path):  # a file is no folder there
        storage.delete(path)
    else:
        storage.delete_tree(path)


def _by_fsspec(uri: str) -> ObjectFiles:
    return ObjectFiles(uri.partition("://")[0])


def outcome(storage: Storage, operation: Operation) -> Any:
    """What it returned, or the class of its error."""
    try:
        return operation(storage)
    except Exception as error:
        return type(error)


@pytest.fixture(scope="module")
def roots(s3_server: S3Server) -> Iterator[dict[str, str]]:
    """A root of each kind."""
    with tempfile.TemporaryDirectory() as disk:
        yield {
            "disk": disk,
            "memory": f"memory://{uuid.uuid4().hex}",
            "store": f"s3://{s3_server.make_bucket()}",
            "store by fsspec": f"s3://{s3_server.make_bucket()}",
        }


@settings(max_examples=examples(300), deadline=None)
@given(SEQUENCES)
def test_operations_have_the_same_outcome_everywhere(
    roots: dict[str, str], operations: list[tuple[str, Operation]]
) -> None:
    place = uuid.uuid4().hex
    found = {}
    for kind, root in roots.items():
        storage = Storage.at(f"{root}/{place}")
        by_fsspec = kind == "store by fsspec"
        with mock.patch.object(folder, "_files_at", _by_fsspec) if by_fsspec else nullcontext():
            found[kind] = [(name, outcome(storage, operation)) for name, operation in operations]
            every = [(each.path, storage.read(each.path)) for each in storage.list(recursive=True)]
            found[kind].append(("all", every))
    assert found["store"] == found["disk"]
    assert found["store"] == found["memory"]
    assert found["store"] == found["store by fsspec"]
    shutil.rmtree(Path(roots["disk"], place), ignore_errors=True)
    if (memory := fsspec.filesystem("memory")).exists(f"{roots['memory']}/{place}"):
        memory.rm(f"{roots['memory']}/{place}", recursive=True)
