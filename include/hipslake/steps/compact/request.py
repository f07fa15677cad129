"""Compact: leaves that have gathered many files get one sorted file each; the content stays as it is.

The work is in `hipslake.steps.compact.run`; here is what it is told and what it says.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from hipslake.catalog.committing import newest_version
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.sphere.pixels import starts
from hipslake.steps.report import Report, Request
from hipslake.storage.folder import Storage

COMPACTIONS = "compact/attempts"
"""The folder of the attempts, in the run folder; each is named by its write id."""


class CompactRequest(Request):
    """Compact the newest version of a run's catalog."""

    step: ClassVar[str] = "compact"

    min_files: int = Field(default=2, ge=2)  # leaves with fewer files stay as they are
    task_bytes: int = Field(default=128 << 20, ge=1)  # of leaf files that one task reads
    merges: int = Field(default=30, ge=1)  # tries, while others change the same leaves; as for an append

    def fingerprint(self) -> str:
        """Return the digest of the request; what it finds to do is the catalog's newest version."""
        text = "\n".join([self.folder.run().write_id, self.step, self.model_dump_json(exclude={"run_uri"})])
        return hashlib.sha256(text.encode()).hexdigest()


class CompactReport(Report):
    """Rows in and out: the rows of the leaves that were compacted, summed over the column groups."""

    step: str = CompactRequest.step
    version: int | None = None  # None: there was nothing to compact
    parent: int | None = None
    catalog_uri: str = ""
    total_rows: int = 0  # of the version
    leaves: int = 0  # that were compacted
    removed_files: int = 0


def files_to_compact(base: CatalogMetadata, catalog: Storage, min_files: int) -> dict[str, pa.Table]:
    """Return the files of the leaves that have enough of them, per column group that has such leaves.

    Parameters
    ----------
    base : CatalogMetadata
        The version to look at.
    catalog : Storage
        At the catalog's root.
    min_files : int
    """
    found = {}
    for group in base.groups:
        if group.files - group.leaves < min_files - 1:
            continue
        table = group.table(catalog)
        start = starts(table["order"].to_numpy(), table["npix"].to_numpy())
        _, of_leaf, counts = np.unique(start, return_inverse=True, return_counts=True)
        crowded = table.filter(pa.array(counts[of_leaf] >= min_files))
        if crowded.num_rows:
            found[group.name] = crowded
    return found


def bytes_to_compact(request: CompactRequest) -> int:
    """Return how many bytes of leaf files a compaction reads; who asks decides where it runs."""
    catalog = Storage.at(request.folder.run().catalog_uri)
    base = newest_version(catalog)
    work = {} if base is None else files_to_compact(base, catalog, request.min_files)
    return sum(pc.sum(table["bytes"]).as_py() for table in work.values())
