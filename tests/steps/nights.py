"""A small survey, night by night, appended by the real steps without Spark; and what it must come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.steps.append.request import AppendReport
from hipslake.steps.compact.request import CompactReport
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.run import RunFolder, Window

from tests.steps import in_process
from tests.steps.margins import assert_margins_are_exact

FIRST = datetime(2026, 10, 1, tzinfo=UTC)
SPEC = """\
name: stars
mode: append
source:
  uri: {landing}/night={{{{ night }}}}/*.parquet
  format: parquet
position: {{ra: ra, dec: dec}}
threshold: {threshold}
mapping_order: 4
layout: {layout}
{more}
"""


def night_rows(number: int, rows: int = 400, seed: int = 0) -> pa.Table:
    """What a night saw: a stripe of the sky that moves, and a crowded field that does not."""
    rng = np.random.default_rng([number, seed])
    ra = (10 * number + rng.uniform(0, 60, rows)) % 360
    dec = rng.uniform(-30, 40, rows)
    crowd = rows // 4
    ra[:crowd], dec[:crowd] = rng.normal(80, 0.5, crowd), rng.normal(20, 0.5, crowd)
    return pa.table(
        {
            "id": number * 1_000_000 + np.arange(rows),
            "ra": ra,
            "dec": dec,
            "mag": rng.normal(18, 2, rows),
            "night": np.full(rows, number, np.int32),
        }
    )


@dataclass
class Survey:
    """Nights that were landed and appended."""

    place: Path
    threshold: str = "300 rows"
    layout: str = "hats"
    more: str = ""
    spec_text: str = ""  # in place of all that
    runs: int = 0
    landed: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def landing(self) -> str:
        return str(self.place / "landing")

    @property
    def warehouse(self) -> str:
        return str(self.place / "warehouse")

    @property
    def appending_spec(self) -> str:
        return SPEC.format(landing=self.landing, threshold=self.threshold, layout=self.layout, more=self.more)

    @property
    def spec(self) -> Path:
        path = self.place / "stars.yaml"
        text = self.spec_text or self.appending_spec
        if not path.exists() or path.read_text() != text:  # others may be reading it
            path.write_text(text)
        return path

    @property
    def root(self) -> Path:
        return self.place / "warehouse" / "catalogs" / "stars"

    @property
    def catalog(self) -> Catalog:
        return Catalog.open(self.root)

    def leaf(self, path: str) -> pa.Table:
        """The rows of a leaf file, as pyarrow alone reads them."""
        return pq.ParquetFile(self.root / path).read()

    def land(self, number: int, table: pa.Table, files: int = 2) -> None:
        """Put the files of a night there, and nothing else."""
        folder = self.place / "landing" / f"night={FIRST + timedelta(days=number):%Y-%m-%d}"
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        per_file = max(1, -(-table.num_rows // files))
        for at in range(files):
            pq.write_table(table.slice(at * per_file, per_file), folder / f"part-{at}.parquet")
        self.landed[number] = table

    def resolve(self, number: int) -> RunFolder:
        """Resolve a run of a night."""
        self.runs += 1
        start = FIRST + timedelta(days=number)
        window = Window(start=start, end=start + timedelta(days=1), origin="data_interval")
        return in_process.start(self.warehouse, self.spec, f"run-{self.runs}", window=window, wait_minutes=0)

    def start(self, number: int) -> RunFolder:
        """Resolve a run of a night, freeze its files and count them."""
        folder = self.resolve(number)
        in_process.freeze(folder)
        in_process.count(folder)
        return folder

    def append(self, number: int) -> AppendReport:
        """Append a landed night."""
        return in_process.append(self.start(number))

    def begin(self) -> RunFolder:
        """Resolve a run that is not of any night."""
        self.runs += 1
        return in_process.start(self.warehouse, self.spec, f"run-{self.runs}", wait_minutes=0)

    def compact(self, **knobs: int) -> CompactReport:
        """Compact the newest version."""
        return in_process.compact(self.begin(), **knobs)

    def newest_write(self) -> str:
        """The write id that the last run drew when it started."""
        runs = f"{self.warehouse}/_runs/catalog_ingest__stars"
        return FrozenRun.of(RunFolder(f"{runs}/run-{self.runs}")).write_id

    def night(self, number: int, rows: int = 400, seed: int = 0) -> AppendReport:
        """Land a night and append it."""
        self.land(number, night_rows(number, rows, seed))
        return self.append(number)

    def assert_holds_what_landed(self) -> None:
        """Check that the newest version is whole and has the rows of every night once."""
        catalog = self.catalog
        catalog.verify().raise_if_failed()
        rows = catalog.read().select(["id", "ra", "dec", "mag", "night"]).sort_by("id")
        expected = pa.concat_tables([self.landed[number] for number in sorted(self.landed)])
        assert rows.combine_chunks().equals(expected.sort_by("id").combine_chunks())
        assert_margins_are_exact(catalog)
