"""Catalogs that nights come to, are run again, compacted and rolled back; and joins of them, published twice.

One outcome goes on from its last version, the other is made anew each time: both have to be the same to the
byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from hipslake import Catalog
from hipslake.api.publishing import published_join
from hipslake.steps.join.request import CrossmatchReport, EquijoinReport, JoinReport
from hipslake.steps.margin.request import MarginReport

from tests.api.published_files import leaves
from tests.steps import in_process

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
MATCH: dict[str, Any] = {
    "type": "crossmatch",
    "left": {"catalog": "a"},
    "right": {"catalog": "b"},
    "radius_arcsec": 40,
    "threshold": "120 rows",
}
"""A match of the sides."""
SIDES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"append": "add_file", "layout": "hipscat"}, {"append": "add_file"}),
    ({"column_groups": [{"name": "main", "columns": ["ra", "dec"]}, {"name": "rest", "columns": "*"}]},) * 2,
]
"""What the specs of both say."""
OF_WRITES = {
    "catalog",
    "version",
    "parent",
    "write_id",
    "created",
    "owner",
    "increments",
    "spec",
    "sha256",
    "groups",
    "fingerprint",
    "base_version",
    "full_because",
    "margins",
    "indices",
}
"""What metadata say of the write of a version."""


def stars(number: int, rows: int, seed: int = 0, *, moving: bool = False) -> pa.Table:
    """What a night saw: a field that lies elsewhere each night, and some rows in one that is always seen."""
    rng = np.random.default_rng([number, seed])
    ra, dec = 40 + 7.0 * (number % 5) + rng.uniform(0, 8, rows), rng.uniform(-4, 4, rows)
    crowd = rows // 10
    ra[:crowd], dec[:crowd] = rng.normal(60, 0.2, crowd), rng.normal(1, 0.2, crowd)
    columns = {
        "id": number * 1_000_000 + seed * 100_000 + np.arange(rows),
        "ra": ra,
        "dec": dec,
        "mag": rng.normal(18, 2, rows).round(3),
        "error": rng.uniform(1, 20, rows).round(3),
        "name": pa.array([f"star {value % 7}" for value in range(rows)]).dictionary_encode(),
    }
    if moving:
        columns |= {"pmra": rng.normal(0, 300, rows), "pmdec": rng.normal(0, 300, rows)}
    return pa.table(columns)


def beside(table: pa.Table, seed: int = 0, arcsec: float = 20.0) -> pa.Table:
    """Rows near those of a table, of which a part has none."""
    rng = np.random.default_rng([seed, 99])
    kept = table.filter(pa.array(rng.uniform(size=table.num_rows) < 0.8))
    ra, dec = (kept[name].to_numpy() for name in ("ra", "dec"))
    off = rng.normal(0, arcsec / 3600, (2, kept.num_rows))
    kept = kept.set_column(1, "ra", pa.array(ra + off[0]))
    return kept.set_column(2, "dec", pa.array(dec + off[1]))


@dataclass
class LivingSide:
    """A catalog that nights are appended to."""

    warehouse: Path
    name: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    runs: int = 0

    @property
    def catalog(self) -> Catalog:
        return Catalog.open(self.warehouse / "catalogs" / self.name)

    @property
    def whole_spec(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "mode": "append",
            "source": {"uri": f"{self.warehouse}/{self.name}/{{{{ night }}}}/*.parquet", "format": "parquet"},
            "position": {"ra": "ra", "dec": "dec", "epoch": 2000.0},
            "threshold": "150 rows",
            "mapping_order": 8,
            "margin": {"arcsec": [120]},
        } | dict(self.spec)

    def night(self, number: int, rows: pa.Table) -> Catalog:
        """Append a night, or put it in the place of what it brought before."""
        return hipslake.ingest(
            rows,
            spec=self.whole_spec,
            warehouse=self.warehouse,
            interval=FIRST + timedelta(days=number),
            spark=False,
        )

    def compact(self) -> None:
        """Gather small leaves."""
        self.runs += 1
        path = self.warehouse / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(self.whole_spec))
        in_process.compact(in_process.start(self.warehouse, path, f"{self.name}-{self.runs}", wait_minutes=0))

    def roll_back(self, version: int) -> None:
        self.catalog.rollback(version)


Sides = tuple[LivingSide, LivingSide]
MakeSides = Callable[..., Sides]
"""Makes two sides of three nights: `which` of `SIDES`, `rows` a night, `moving`."""


def joined(warehouse: Path, spec: Mapping[str, Any], name: str, **params: Any) -> tuple[Catalog, JoinReport]:
    """Publish a join under a name, and return what came of it; an empty report if there was nothing to do."""
    outcome = published_join(dict(spec), name=name, warehouse=warehouse, spark=False, **params)
    kind = "crossmatch" if (Path(outcome.run_uri) / "reports" / "crossmatch.json").exists() else "equijoin"
    model = CrossmatchReport if kind == "crossmatch" else EquijoinReport
    if outcome.nothing_to_do:
        return outcome.catalog, model(rows_out=outcome.catalog.metadata.total_rows)
    text = (Path(outcome.run_uri) / "reports" / f"{kind}.json").read_text()
    return outcome.catalog, model.model_validate_json(text)


def assert_equal_outcomes(one: Catalog, other: Catalog) -> None:
    """Two outcomes have the same leaves to the byte, and say the same of them."""
    assert leaves(one) == leaves(other)
    told = [json.loads(each.metadata.to_json()) for each in (one, other)]
    assert _but(told[0], OF_WRITES) == _but(told[1], OF_WRITES)
    groups = [[_but(group, {"partitions", "sidecars"}) for group in each["groups"]] for each in told]
    assert groups[0] == groups[1]
    assert [margin_sums(one), index_sums(one)] == [margin_sums(other), index_sums(other)]
    tables = [each.metadata.increments[0].cells(each.storage) for each in (one, other)]
    assert tables[0].equals(tables[1])
    assert plain_rows(one).equals(plain_rows(other))


def margin_sums(catalog: Catalog) -> list[list[tuple[int, int, int, str]]]:
    """The files of each margin along the curve: order, pixel, rows, and SHA-256 as it is on disk."""
    found = []
    for margin in catalog.metadata.margins:
        files = margin.table(catalog.storage).to_pylist()
        sums = [hashlib.sha256(catalog.storage.read(file["path"])).hexdigest() for file in files]
        assert sums == [file["sha256"] for file in files]
        of_files = [(file["order"], file["npix"], file["rows"]) for file in files]
        found.append([(*of_file, digest) for of_file, digest in zip(of_files, sums, strict=True)])
    return found


def index_sums(catalog: Catalog) -> list[list[str]]:
    """The checksums of the files of each index."""
    return [[file.sha256 for file in index.files] for index in catalog.metadata.indices]


def margin_report(warehouse: Path, name: str) -> MarginReport:
    """What the last run of a join says of the margins that it made."""
    runs = warehouse.glob(f"_runs/*__{name}/*/reports/margin.json")
    return MarginReport.model_validate_json(max(runs, key=lambda path: path.stat().st_mtime_ns).read_text())


def plain_rows(catalog: Catalog) -> pa.Table:
    """All rows along the curve, by pyarrow alone, from the folder that readers are led to."""
    paths = catalog.metadata.partitions(None, catalog.storage)["path"].to_pylist()
    return pa.concat_tables([pq.read_table(Path(catalog.uri) / path, partitioning=None) for path in paths])


def published_twice(
    warehouse: Path, spec: Mapping[str, Any], names: tuple[str, str] = ("living", "whole"), **params: Any
) -> JoinReport:
    """Publish a join that goes on from its last version, and one that is made anew; compare them."""
    living, report = joined(warehouse, spec, names[0], **params)
    whole, anew = joined(warehouse, spec, names[1], full=True, **params)
    assert report.rows_out == anew.rows_out
    assert_equal_outcomes(living, whole)
    return report


def _but(document: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}
