"""Catalogs that tests share: of columns of many kinds, and of a survey whose steps they run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hipslake import Catalog

from tests.api.catalogs import LAYOUTS, publish_many_kinds
from tests.catalog.publishing import Published
from tests.steps import in_process


class Templates(dict[str, Published]):
    """Catalogs by their layouts, with a text that fits into a report."""

    def __repr__(self) -> str:
        return f"Templates({', '.join(self)})"


@pytest.fixture(scope="session")
def many_kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Published]:
    """A published catalog of each layout; nobody changes it."""
    return Templates(
        {layout: publish_many_kinds(tmp_path_factory.mktemp("kinds"), layout) for layout in LAYOUTS}
    )


@pytest.fixture(params=LAYOUTS)
def published(request: pytest.FixtureRequest, many_kinds: dict[str, Published]) -> Published:
    """One of them."""
    return many_kinds[request.param]


@pytest.fixture
def catalog(published: Published) -> Catalog:
    """One of them, opened."""
    return Catalog.open(published.storage.uri())


@pytest.fixture
def stars(tmp_path: Path) -> pa.Table:
    """3,000 stars, which also lie in three Parquet files under `landing/`."""
    return in_process.write_source(tmp_path / "landing")
