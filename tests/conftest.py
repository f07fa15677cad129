"""What tests of several packages start from."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from hipslake.storage import Storage

from tests import airflow_home


@pytest.fixture(scope="session")
def peers_python() -> str:
    """The interpreter of the environment that holds LSDB, hats and DuckDB."""
    default = airflow_home.PROJECT / ".venv-peers" / "bin" / "python"
    python = Path(os.environ.get("HIPSLAKE_PEERS_PYTHON") or default)
    if not python.exists():
        pytest.skip(f"no peers' environment at {python}; set HIPSLAKE_PEERS_PYTHON to its interpreter")
    return str(python)


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
