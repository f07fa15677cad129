from __future__ import annotations

import uuid

import fsspec
import pytest
from hipslake.storage.folder import Storage

from tests.versions.committing import FaultyStore


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Storage:
    fsspec.register_implementation("faulty", FaultyStore, clobber=True)
    monkeypatch.setattr(FaultyStore, "before_put", None)
    monkeypatch.setattr(FaultyStore, "after_put", None)
    return Storage.at(f"faulty://{uuid.uuid4().hex}")
