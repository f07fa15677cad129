"""The store of the benchmark that costs next to nothing answers as a disk does, by both clients of S3."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hipslake.storage import folder
from hipslake.storage.folder import Storage
from hypothesis import given, settings

from benchmarks.store_server import BUCKET
from benchmarks.thin_store import running_thin_store
from tests.examples import examples
from tests.storage.test_same_answers import SEQUENCES, Operation, _by_fsspec, outcome
from tests.stores.s3_server import S3Server


@pytest.fixture(scope="module")
def thin() -> Iterator[str]:
    """The root of the bucket."""
    with (
        tempfile.TemporaryDirectory() as place,
        running_thin_store(Path(place), BUCKET) as server,
        S3Server(server.endpoint).reached(),
    ):
        yield f"s3://{BUCKET}"


@pytest.mark.parametrize("by_fsspec", [False, True], ids=["obstore", "fsspec"])
@settings(max_examples=examples(100), deadline=None)
@given(operations=SEQUENCES)
def test_operations_have_the_outcome_of_a_disk(
    thin: str, by_fsspec: bool, operations: list[tuple[str, Operation]]
) -> None:
    place, disk = uuid.uuid4().hex, tempfile.mkdtemp()
    found: list[Any] = []
    for root in (f"{thin}/{place}", f"{disk}/{place}"):
        storage = Storage.at(root)
        patched = by_fsspec and root.startswith("s3")
        with mock.patch.object(folder, "_files_at", _by_fsspec) if patched else nullcontext():
            told: list[Any] = [(name, outcome(storage, operation)) for name, operation in operations]
            told.append([(each.path, storage.read(each.path)) for each in storage.list(recursive=True)])
            found.append(told)
    assert found[0] == found[1]
    shutil.rmtree(disk)


def test_of_those_who_create_an_object_one_does(thin: str) -> None:
    storage = Storage.at(f"{thin}/{uuid.uuid4().hex}")
    with ThreadPoolExecutor(16) as pool:
        for number in range(20):
            made = list(pool.map(lambda who, path=f"{number}": storage.create(path, b"%d" % who), range(16)))
            assert made.count(True) == 1
            assert storage.read(f"{number}") == b"%d" % made.index(True)


def test_large_objects_come_whole_and_in_parts(thin: str) -> None:
    storage = Storage.at(f"{thin}/{uuid.uuid4().hex}")
    data = np.random.default_rng(1).bytes(70 << 20)
    storage.write("whole", data)
    with storage.open("stream", "wb") as file:
        for at in range(0, len(data), 9 << 20):
            file.write(data[at : at + (9 << 20)])
    for name in ("whole", "stream"):
        assert storage.entry(name).size == len(data)
        assert storage.read(name) == data
        assert storage.read_range(name, 5 << 20, 60 << 20) == data[5 << 20 : 60 << 20]
        assert storage.read_tail(name, 1000) == data[-1000:]


def test_long_lists_come_in_pages(thin: str) -> None:
    storage = Storage.at(f"{thin}/{uuid.uuid4().hex}")
    names = sorted(f"{at % 3}/{at:05d} ä&<{at}>.parquet" for at in range(2500))
    storage.write_all(dict.fromkeys(names, b"x"))
    assert [each.path for each in storage.list(recursive=True)] == names
    assert [each.path for each in storage.list() if each.is_dir] == ["0", "1", "2"]
    assert [each.path for each in storage.list("1")] == [name for name in names if name[0] == "1"]
    storage.delete_tree("1")
    assert [each.path for each in storage.list(recursive=True)] == [name for name in names if name[0] != "1"]
