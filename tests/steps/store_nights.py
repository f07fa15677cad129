"""The survey of `nights`, landed and kept in a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.steps.run import RunFolder, Window
from hipslake.storage import Storage

from tests.steps import in_process
from tests.steps.nights import FIRST, SPEC, Survey


@dataclass
class StoreSurvey(Survey):
    """Nights below a URI; only the spec lies in `place`."""

    uri: str = ""

    @property
    def spec(self):  # type: ignore[no-untyped-def]
        path = self.place / "stars.yaml"
        path.write_text(
            SPEC.format(
                landing=f"{self.uri}/landing", threshold=self.threshold, layout=self.layout, more=self.more
            )
        )
        return path

    @property
    def catalog(self) -> Catalog:
        return Catalog.open(f"{self.uri}/warehouse/catalogs/stars")

    def land(self, number: int, table: pa.Table, files: int = 2) -> None:
        folder = Storage.at(f"{self.uri}/landing/night={FIRST + timedelta(days=number):%Y-%m-%d}")
        for old in folder.list():
            folder.delete(old.path)
        per_file = max(1, -(-table.num_rows // files))
        for at in range(files):
            with folder.open(f"part-{at}.parquet", "wb") as file:
                pq.write_table(table.slice(at * per_file, per_file), file)
        self.landed[number] = table

    def start(self, number: int) -> RunFolder:
        self.runs += 1
        start = FIRST + timedelta(days=number)
        window = Window(start=start, end=start + timedelta(days=1), origin="data_interval")
        folder = in_process.start(f"{self.uri}/warehouse", self.spec, f"run-{self.runs}", window=window)
        in_process.freeze(folder)
        return folder
