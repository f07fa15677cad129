"""Whether rows that were quarantined still lie where a version says, every one of them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.checks.version_files import text_of
from hipslake.catalog.checksums import HIDDEN_CHECKSUMS, list_folder, listed_checksums
from hipslake.catalog.metadata import Rejects
from hipslake.storage.folder import Storage

_MEND = "restore it from a copy, or ingest the rows again; no reader of the catalog needs it"


def reject_problems(storage: Storage, rejects: Rejects) -> Iterator[Problem]:
    """What is wrong with the rejects of an increment.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    rejects : Rejects
    """
    if rejects.path is None:
        return
    listing = f"{rejects.path}/{HIDDEN_CHECKSUMS}"
    data = text_of(storage, listing)
    sums = listed_checksums(data) if data is not None else {}
    if sums is None or not all(path.startswith(f"{rejects.path}/") for path in sums):
        sums = None
        yield _wrong(listing, "is damaged, or of other files")
    found = list_folder(storage, rejects.path)
    for path in sorted({*found, *(sums or {})}):
        if path not in found:
            yield _wrong(path, "is missing", missing=True)
        elif sums and path not in sums:
            yield _wrong(path, f"is not in {listing}: nobody knows whose it is")
        elif sums and found[path] != sums[path]:
            yield _wrong(path, f"is not the file that was written: its SHA-256 is not the one in {listing}")
    if not sums:  # older libraries listed none
        yield from _counted(storage, rejects, sorted(found))


def _counted(storage: Storage, rejects: Rejects, paths: list[str]) -> Iterator[Problem]:
    rows = 0
    for path in paths:
        try:
            rows += pq.read_table(pa.BufferReader(storage.read(path))).num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            yield _wrong(path, f"cannot be read ({str(error).splitlines()[0]})")
            return
    if rows != rejects.rows:
        assert rejects.path is not None
        message = f"holds {rows} rows, where its increment says that {rejects.rows} were rejected"
        yield _wrong(rejects.path, message)


def _wrong(path: str, message: str, *, missing: bool = False) -> Problem:
    kind = ProblemKind.MISSING_FILE if missing else ProblemKind.SIDECAR
    return Problem.of(kind, path, message, _MEND, readers=False)
