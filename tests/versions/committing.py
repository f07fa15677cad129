"""Versions to commit, and a store that fails where a test wants it to."""

from __future__ import annotations

import json
from collections.abc import Callable

import fsspec
from hipslake.storage.folder import Storage
from hipslake.versions.log import RootPointers, VersionLog


class FaultyStore(fsspec.get_filesystem_class("memory")):  # type: ignore[misc]
    """A store in memory that calls `before_put` and `after_put` with each path that is written."""

    protocol = "faulty"
    before_put: Callable[[str], None] | None = None
    after_put: Callable[[str], None] | None = None

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: object) -> None:
        if FaultyStore.before_put:
            FaultyStore.before_put(path)
        super().pipe_file(path, value, mode=mode, **options)
        if FaultyStore.after_put:
            FaultyStore.after_put(path)


def metadata(number: int, write_id: str, **more: object) -> bytes:
    return json.dumps({"version": number, "write_id": write_id, **more}).encode()


def write_id_of(number: int) -> str:
    return f"20261121T0330-{number:04x}"


def to_its_write(data: bytes) -> RootPointers:
    """Let `current` lead to the write of a version."""
    return RootPointers(links={"current": json.loads(data)["write_id"]})


def committed(storage: Storage, count: int) -> VersionLog:
    log = VersionLog(storage)
    for number in range(1, count + 1):
        data = metadata(number, write_id_of(number))
        assert log.commit(number, data, write_id_of(number)) == "committed"
    return log
