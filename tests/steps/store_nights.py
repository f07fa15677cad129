"""The surveys of `nights` and `upserts`, landed and kept in a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from hipslake import Catalog
from hipslake.storage.folder import Storage

from tests.steps.nights import FIRST, Survey
from tests.steps.upserts import UpsertSurvey


@dataclass
class StoreSurvey(Survey):
    """Nights below a URI; only the spec lies in `place`."""

    uri: str = ""

    @property
    def landing(self) -> str:
        return f"{self.uri}/landing"

    @property
    def warehouse(self) -> str:
        return f"{self.uri}/warehouse"

    @property
    def catalog(self) -> Catalog:
        return Catalog.open(f"{self.warehouse}/catalogs/stars")

    def leaf(self, path: str) -> pa.Table:
        with fsspec.open(f"{self.warehouse}/catalogs/stars/{path}") as file:
            return pq.ParquetFile(file).read()

    def land(self, number: int, table: pa.Table, files: int = 2) -> None:
        folder = Storage.at(f"{self.landing}/night={FIRST + timedelta(days=number):%Y-%m-%d}")
        for old in folder.list():
            folder.delete(old.path)
        per_file = max(1, -(-table.num_rows // files))
        for at in range(files):
            with folder.open(f"part-{at}.parquet", "wb") as file:
                pq.write_table(table.slice(at * per_file, per_file), file)
        self.landed[number] = table


@dataclass
class UpsertStoreSurvey(StoreSurvey, UpsertSurvey):
    """Nights of records below a URI."""

    @property
    def is_published(self) -> bool:
        return Storage.at(f"{self.warehouse}/catalogs/stars").exists("metadata.json")
