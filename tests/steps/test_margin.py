"""Margins of a version that is built whole, and of one that is published already."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake import Catalog

from tests.steps import in_process
from tests.steps.margins import assert_margins_are_exact

MARGIN = "margin: {arcsec: [7200, 600]}"


@pytest.fixture(params=["hats", "hipscat"])
def layout(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ingested(place: Path, **spec: str) -> Catalog:
    in_process.write_source(place / "landing")
    spec_file = in_process.write_spec(place / "stars.yaml", f"{place}/landing/*.parquet", **spec)
    in_process.ingest(in_process.start(place / "warehouse", spec_file))
    return Catalog.open(place / "warehouse" / "catalogs" / "stars")


def test_margins_of_a_spec_are_exact(tmp_path: Path, layout: str) -> None:
    catalog = ingested(tmp_path, layout=layout, more=MARGIN)
    counts = assert_margins_are_exact(catalog)
    assert list(counts) == [7200.0, 600.0]
    assert counts[7200.0] > 5 * counts[600.0] > 0
    names = [margin.name for margin in catalog.metadata.margins]
    expected = ["main_7200arcs", "main_600arcs"] if layout == "hats" else ["margin_7200", "margin_600"]
    assert names == expected
