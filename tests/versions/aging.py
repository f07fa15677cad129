"""Files that were written some time ago, by the clock of their store."""

from __future__ import annotations

import os
from datetime import timedelta

import fsspec
import pytest
from hipslake.storage.folder import Storage


def set_back(storage: Storage, path: str, seconds: float) -> None:
    """Make a file, or a local folder, older. An S3 server lets nobody do so: there the test is left out."""
    if storage.is_local:
        status = os.stat(storage.uri(path))  # noqa: PTH116
        os.utime(storage.uri(path), (status.st_atime - seconds, status.st_mtime - seconds))
        return
    memory = fsspec.filesystem("memory")
    if not storage.root.startswith("memory://"):
        pytest.skip("an S3 server tells its own times")
    memory.store[memory._strip_protocol(storage.uri(path))].created -= timedelta(seconds=seconds)
