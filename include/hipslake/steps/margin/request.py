"""Margin: the rows within a distance outside of every leaf, as files of their own.

The work is in `hipslake.steps.margin.run`; here is what it is told and what it says.

`margin/partitions.parquet` in the run folder lists the files that a run made for the version that it is about
to publish. `margin/attempts/` holds a folder for every attempt at adding margins to a published version.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from hipslake.catalog.committing import newest_version
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.partitions import PARTITION_SCHEMA
from hipslake.errors import StepError
from hipslake.specs.margin_spec import Distances
from hipslake.steps.ingest.write_request import (
    DEFAULT_TARGET_BYTES,
    MAX_BLOCK_BYTES,
    WriteReport,
    WriteRequest,
)
from hipslake.steps.report import Report, Request
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage

MARGIN_FILES = "margin/partitions.parquet"
"""The files of a run's margins, in the run folder."""
MARGINS = "margin/attempts"
"""The folder of the attempts, in the run folder; each is named by its write id."""
FILES_SCHEMA = pa.schema([("margin", pa.string()), *PARTITION_SCHEMA])


class MarginRequest(Request):
    """Make the margins of what a run wrote; or, where distances are given, those of a published version."""

    step: ClassVar[str] = "margin"
    reusable: ClassVar[bool] = False  # who writes the leaves anew wipes the margins away

    arcsec: Distances = ()  # none: those of the spec, for the version that the run is about to publish
    task_bytes: int = Field(default=DEFAULT_TARGET_BYTES, ge=1)  # that a task reads or gathers
    block_bytes: int = Field(default=16 << 20, ge=1, le=MAX_BLOCK_BYTES)  # a block of the exchange
    merges: int = Field(default=10, ge=1)  # how often it starts over after others have changed the catalog

    def fingerprint(self) -> str:
        """Return the digest of the request; margins of a published version do not depend on the sources."""
        if not self.arcsec:
            return super().fingerprint()
        text = "\n".join([self.folder.run().write_id, self.step, self.model_dump_json(exclude={"run_uri"})])
        return hashlib.sha256(text.encode()).hexdigest()


class MarginReport(Report):
    """Rows in and out: the rows of the primary column group, which stay what they are."""

    step: str = MarginRequest.step
    catalog_uri: str = ""
    margin_rows: dict[str, int] = Field(default_factory=dict)  # margin -> rows in its files
    version: int | None = None  # None: nothing was committed
    parent: int | None = None


def margin_files(folder: RunFolder) -> pa.Table:
    """Return the files of the margins that a run made, as `FILES_SCHEMA`; none if it is to make none.

    Raises
    ------
    StepError
        If the margin step has not run.
    """
    if not folder.run().spec.margin.arcsec:
        return FILES_SCHEMA.empty_table()
    if not folder.storage.is_file(MARGIN_FILES):
        raise StepError(f"{folder.uri_of(MARGIN_FILES)} does not exist; run the margin step first")
    return read_table(folder.storage, MARGIN_FILES)


def missing_margins(base: CatalogMetadata, arcsec: tuple[float, ...]) -> tuple[float, ...]:
    """Return the distances at which a version has no margin."""
    return tuple(each for each in arcsec if base.margin(each) is None)


def bytes_to_read(request: MarginRequest) -> int:
    """Return how many bytes of leaf files are read at most; who asks decides where the step runs."""
    folder = request.folder
    if request.arcsec:
        base = newest_version(Storage.at(folder.run().catalog_uri))
        return base.groups[0].bytes if base else 0
    written = folder.read(RunFolder.report_path(WriteRequest.step), WriteReport)
    primary = folder.run().spec.column_groups[0].name
    if primary in written.group_bytes:
        return written.group_bytes[primary]
    files = read_table(folder.storage, RunFolder.PARTITIONS)
    return pc.sum(files.filter(pc.equal(files["group"], primary))["bytes"]).as_py() or 0
