"""Readers that know nothing of hipslake, each in one process for all tests; S3 is within their reach."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.readers.peer import Peer, running_peer
from tests.spark.conftest import spark  # noqa: F401


@pytest.fixture(scope="session")
def newest_peer(
    peers_python: str, s3_server: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """DuckDB, and the newest LSDB."""
    with running_peer(peers_python, tmp_path_factory.mktemp("newest")) as process:
        yield process


@pytest.fixture(scope="session")
def older_peer(
    older_peers_python: str, s3_server: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Peer]:
    """The oldest LSDB that counts."""
    with running_peer(older_peers_python, tmp_path_factory.mktemp("older")) as process:
        yield process
