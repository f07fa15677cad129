"""Index: where the values of the spec's index columns lie. For what a run wrote, or for the newest version.

The work is in `hipslake.steps.index.run`; here is what it is told and what it says.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

from pydantic import Field

from hipslake.catalog.committing import newest_version
from hipslake.catalog.metadata import Index
from hipslake.specs.base import Frozen
from hipslake.steps.ingest.write_request import WriteReport, WriteRequest
from hipslake.steps.report import Report, Request
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage

INDEX_ATTEMPTS = "index/attempts"
"""The folder of the attempts at published versions, in the run folder; each is named by its write id."""


class BuiltIndices(Frozen):
    """What the step leaves for the steps that publish."""

    indices: tuple[Index, ...] = ()


class BuildIndexRequest(Request):
    """Build the indices of what the run wrote; or build those of the newest version anew, and commit them."""

    step: ClassVar[str] = "index"
    outputs: ClassVar[tuple[str, ...]] = (RunFolder.INDICES,)

    published: bool = False
    file_rows: int = Field(default=4 << 20, ge=1)  # entries of an index file, about

    def fingerprint(self) -> str:
        """Return the digest of the request; for a published version, what it reads is the newest one."""
        if not self.published:
            return super().fingerprint()
        text = "\n".join([self.folder.run().write_id, self.step, self.model_dump_json(exclude={"run_uri"})])
        return hashlib.sha256(text.encode()).hexdigest()


def bytes_to_index(request: BuildIndexRequest) -> int:
    """Return how many bytes of leaf files there are to index; who asks decides where it runs."""
    if not request.published:
        return request.folder.read(RunFolder.report_path(WriteRequest.step), WriteReport).bytes
    newest = newest_version(Storage.at(request.folder.run().catalog_uri))
    return newest.total_bytes if newest else 0


class BuildIndexReport(Report):
    """Rows in: the rows that were indexed, summed over the indices. Rows out: the same."""

    step: str = BuildIndexRequest.step
    columns: tuple[str, ...] = ()
    entries: int = 0
    version: int | None = None  # that was committed; None: none was
    catalog_uri: str = ""
    total_rows: int = 0
