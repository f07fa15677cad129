"""What a demo makes is its user's alone, unless the deployment says otherwise."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipslake.storage.folder import Storage
from hipslake_demo.command import exit_code


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize(("said", "folder", "file"), [(None, 0o700, 0o600), ("027", 0o750, 0o640)])
def test_folders_and_files_of_a_demo_have_the_modes_that_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, folder: int, file: int
) -> None:
    monkeypatch.delenv("HIPSLAKE_UMASK", raising=False)
    if said is not None:
        monkeypatch.setenv("HIPSLAKE_UMASK", said)
    landing = tmp_path / "data" / "landing"
    assert exit_code(lambda: Storage.at(landing).write("stars.parquet", b"rows")) == 0
    for path, mode in ((landing, folder), (landing.parent, folder), (landing / "stars.parquet", file)):
        assert stat.S_IMODE(path.stat().st_mode) == mode, path
