"""What tests of several packages start from."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from hipslake.storage import Storage


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """A storage of either kind: POSIX files, and objects."""
    if request.param == "local":
        yield Storage.at(tmp_path)
        return
    root = f"memory://{uuid.uuid4().hex}"
    yield Storage.at(root)
    memory = fsspec.filesystem("memory")
    if memory.exists(root):
        memory.rm(root, recursive=True)
