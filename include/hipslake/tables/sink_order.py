"""The order and the outcome of a sink: models that need neither pyarrow nor Spark to be read."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import AwareDatetime, Field

from hipslake.sources.source_file import SourceFile
from hipslake.specs.base import Frozen
from hipslake.specs.source_spec import SourceSpec
from hipslake.specs.table_spec import TableSpec


class VersionRows(Frozen):
    """Rows of one version of a catalog."""

    kind: Literal["catalog"] = "catalog"
    uri: str  # root of the catalog
    version: int
    increment: str | None = None  # key of the only increment whose rows are taken; None: all rows
    content: str  # what of the version decides the rows: its write ids
    columns: tuple[str, ...] | None = None
    filters: str | None = None


class FileRows(Frozen):
    """Rows of files, as they were listed."""

    kind: Literal["files"] = "files"
    source: SourceSpec  # with the interval put in
    files: tuple[SourceFile, ...]
    columns: tuple[str, ...] | None = None

    @property
    def content(self) -> str:
        """What decides the rows: the digest of the list of files."""
        listing = [[file.uri, file.size, file.stamp] for file in self.files]
        return hashlib.sha256(json.dumps(listing).encode()).hexdigest()


class StreamBatch(Frozen):
    """Which micro-batch of a streaming query rows are of."""

    query: str
    number: int = Field(ge=0)  # ascending in a query; a batch that is done again has its number again
    checkpoint: str | None = None  # id of the checkpoint that the query goes on from; None: not known


class BatchRows(Frozen):
    """Rows of a micro-batch of a stream, as they lie in files."""

    kind: Literal["batch"] = "batch"
    batch: StreamBatch
    given: FileRows

    @property
    def files(self) -> tuple[SourceFile, ...]:
        """Where they lie."""
        return self.given.files

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Those that are taken; None: all."""
        return self.given.columns

    @property
    def content(self) -> str:
        """What decides the rows: the number of the batch, whatever files they lie in by now."""
        return hashlib.sha256(self.batch.model_dump_json().encode()).hexdigest()


class SinkOrder(Frozen):
    """One sink: rows, the table that they go to, and the interval that they are of."""

    spec: TableSpec  # with the overrides of the params
    warehouse: str
    rows: VersionRows | FileRows | BatchRows = Field(discriminator="kind")
    start: AwareDatetime | None = None  # of the interval
    end: AwareDatetime | None = None
    whole: bool = False  # of no interval, but all that the source has: what it had before goes (mode append)
    write_id: str  # of the run; kept through its retries
    force: bool = False  # also where the same rows were sunk before

    @property
    def batch(self) -> StreamBatch | None:
        """The micro-batch that the rows are of: its rows come beside those of earlier ones. None: of none."""
        return self.rows.batch if isinstance(self.rows, BatchRows) else None

    @property
    def key(self) -> str:
        """What the rows are of: a second sink of the same key replaces the first, or has nothing to do."""
        if self.batch is not None:
            return stream_key(self.spec.name)
        if self.start is not None:
            return f"{self.spec.name}/{self.start.isoformat()}"
        if self.whole:
            return f"{self.spec.name}/all"
        if isinstance(self.rows, VersionRows):
            return f"{self.spec.name}/version {self.rows.version}"
        return f"{self.spec.name}/files {self.fingerprint[:16]}"

    @property
    def tag(self) -> str | None:
        """The name of the tag that is set at its version; None: there is none."""
        return self.spec.tag_of(self.start, self.end)

    @property
    def fingerprint(self) -> str:
        """The digest of the rows, and of all of the spec that decides what becomes of them.

        Of a catalog its content counts, not the version: a compaction changes no row.
        """
        rows = self.rows.model_dump_json(exclude={"version", "files", "given"})
        text = "\n".join([self.spec.fingerprint_text(), self.rows.content, rows])
        return hashlib.sha256(text.encode()).hexdigest()


def stream_key(name: str) -> str:
    """The key of all batches of a stream, by the name of its spec: a table keeps the mark of the newest."""
    return f"{name}/stream"


class SinkOutcome(Frozen):
    """What a sink did."""

    table: str  # namespace.table
    location: str  # of the table
    snapshot_id: int | None = None  # that it committed; None: there was nothing to do
    created: bool = False  # the table
    skipped: bool = False  # these very rows were sunk before
    found_snapshot_id: int | None = None  # that has them; None: it has expired
    found_rows: int = 0
    columns_added: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()  # of the table, so that the rows fit; in words
    swept: tuple[str, ...] = ()  # of dead writes of the table
    rows_in: int = 0  # read from the source
    rows_out: int = 0  # of them, in the table now
    delete_records: int = 0  # of them, that delete the row of their key
    rows_left_out: int = 0  # of them, since another row of the same key came later
    rows_updated: int = 0  # rows of the table that were replaced
    rows_deleted: int = 0  # rows of the table that records of change data have deleted
    missing_deletes: int = 0  # such records that found no row
    outdated: int = 0  # keys whose last record is older than their row of the table
    rows_rewritten: int = 0  # rows of replaced files that stayed as they were
    case: int = 0  # of the shuffle plan
    plan: str = ""  # in words
    expected_files: int = 0
    files_added: int = 0
    files_removed: int = 0
    delete_files: int = 0  # added: they say which rows of data files are gone
    files_read: int = 0  # of the table, to look for old versions
    bytes: int = 0  # of the files added, those of deletes too
    task_bytes: tuple[int, ...] = ()  # of the files that each task has written
    attempts: int = 1  # at the commit
    ndv: dict[str, int] = Field(default_factory=dict)  # by column, how many distinct values the table has now
    seconds: dict[str, float] = Field(default_factory=dict)
