"""Ingests of programs that fail: nothing is left of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hipslake.api.ingesting import ingested
from hipslake.errors import (
    BadRowsError,
    EmptySourceError,
    InputError,
    SchemaMismatchError,
    SpecError,
    VerificationError,
)

from tests.api.published_files import folders
from tests.api.stars_spec import SPEC


class TestFailures:
    """Whatever happens on the way: nothing is left in the catalog, and the next run goes well."""

    def nothing_is_left(self, place: Path, rows: Any, spec: Any = SPEC) -> None:
        root = place / "catalogs" / "stars"
        assert folders(root) == set()
        assert not list(place.glob("_runs/*/*/given/**/*.parquet"))
        assert hipslake.ingest(rows, spec=spec, warehouse=place, spark=False).version == 1

    def test_columns_that_are_not_there(self, tmp_path: Path, stars: pa.Table) -> None:
        with pytest.raises(SchemaMismatchError, match="decl"):
            hipslake.ingest(
                stars,
                spec=SPEC | {"position": {"ra": "ra", "dec": "decl"}},
                warehouse=tmp_path,
                spark=False,
            )
        self.nothing_is_left(tmp_path, stars)

    def test_rows_that_are_not_on_the_sky(self, tmp_path: Path, stars: pa.Table) -> None:
        bad = stars.set_column(2, "dec", pa.array(np.full(stars.num_rows, 91.0)))
        with pytest.raises((BadRowsError, EmptySourceError)):
            hipslake.ingest(bad, spec=SPEC, warehouse=tmp_path, spark=False)
        self.nothing_is_left(tmp_path, stars)

    def test_a_mark_that_does_not_hold(self, tmp_path: Path, stars: pa.Table) -> None:
        rows = stars.set_column(0, "id", pa.array(np.arange(3000) % 5))
        with pytest.raises(VerificationError):
            hipslake.ingest(rows, spec=SPEC | {"co_partitioned": ["id"]}, warehouse=tmp_path, spark=False)
        self.nothing_is_left(tmp_path, stars)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("after", ["inputs", "histogram", "plan"])
    def test_a_source_file_that_changes_meanwhile(self, tmp_path: Path, stars: pa.Table, after: str) -> None:
        spec = SPEC | {"source": {"uri": f"{tmp_path}/landing/*.parquet", "format": "parquet"}}

        def told(step: str, report: Any) -> None:
            if step == after and report is not None:
                pq.write_table(stars, tmp_path / "landing" / "part-1.parquet")

        with pytest.raises(InputError, match="changed after the run listed it"):
            ingested(None, spec=spec, warehouse=tmp_path, spark=False, told=told)
        self.nothing_is_left(tmp_path, None, spec)

    def test_a_leaf_that_is_damaged_before_it_is_verified(self, tmp_path: Path, stars: pa.Table) -> None:
        def told(step: str, report: Any) -> None:
            if step == "write" and report is not None:
                leaf = next((tmp_path / "catalogs/stars").rglob("Npix=*.parquet"))
                leaf.write_bytes(leaf.read_bytes()[:-9] + b"123456789")

        with pytest.raises(VerificationError):
            ingested(stars, spec=SPEC, warehouse=tmp_path, spark=False, told=told)
        self.nothing_is_left(tmp_path, stars)

    @pytest.mark.sampled(4)
    @pytest.mark.parametrize("at", ["inputs", "histogram", "plan", "write", "margin", "index", "verify"])
    def test_an_interrupt(self, tmp_path: Path, stars: pa.Table, at: str) -> None:
        def told(step: str, report: Any) -> None:
            if step == at and report is not None:
                raise KeyboardInterrupt

        spec = SPEC | {"margin": {"arcsec": [60]}, "index": ["id"]}
        with pytest.raises(KeyboardInterrupt):
            ingested(stars, spec=spec, warehouse=tmp_path, spark=False, told=told)
        self.nothing_is_left(tmp_path, stars, spec)

    def test_an_interrupt_after_the_commit_keeps_the_version(self, tmp_path: Path, stars: pa.Table) -> None:
        def told(step: str, report: Any) -> None:
            if step == "publish" and report is not None:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            ingested(stars, spec=SPEC, warehouse=tmp_path, spark=False, told=told)
        catalog = hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
        assert catalog.version == 1
        catalog.verify(all=True).raise_if_failed()

    def test_versions_of_others_stay_whole(self, tmp_path: Path, stars: pa.Table) -> None:
        def told(step: str, report: Any) -> None:
            if step == "verify" and report is not None:
                hipslake.ingest(stars.slice(0, 1000), spec=SPEC, warehouse=tmp_path, spark=False)

        found = ingested(stars, spec=SPEC, warehouse=tmp_path, spark=False, told=told).catalog
        assert (found.version, found.metadata.total_rows) == (2, 3000)
        found.verify(all=True).raise_if_failed()

    def test_a_name_that_another_kind_of_spec_publishes(self, tmp_path: Path, stars: pa.Table) -> None:
        catalog = hipslake.ingest(stars, spec=SPEC, warehouse=tmp_path, spark=False)
        match = {"left": catalog, "right": catalog, "radius_arcsec": 1, "name": "stars"}
        with pytest.raises(SpecError):
            hipslake.publish(match, warehouse=tmp_path)
        assert catalog.versions() == [1]
