"""The results of verification: problems, findings of single leaf files, and the report on a version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from hipslake.catalog.metadata import CatalogMetadata, Partition
from hipslake.catalog.row_sets import RowDigest
from hipslake.errors import HipslakeError, VerificationError
from hipslake.specs.base import Frozen

_SHOWN = 20  # problems that an error message spells out; the report holds them all


class ProblemKind(StrEnum):
    """The kinds of problems of a version."""

    MISSING_FILE = "missing file"
    EXTRA_FILE = "extra file"
    WRONG_PATH = "wrong path"
    SIZE = "size"
    CHECKSUM = "checksum"
    SWAPPED_FILE = "swapped file"
    UNREADABLE = "unreadable"
    SCHEMA = "schema"
    ROW_COUNT = "row count"
    THRESHOLD = "threshold"
    NULLS = "nulls"
    MEMBERSHIP = "pixel membership"
    SORT_ORDER = "sort order"
    INDEX = "index"
    POSITION = "position"
    STATISTICS = "statistics"
    OVERLAP = "overlapping leaves"
    TOTALS = "totals"
    ROW_IDENTITY = "row identity"
    DUPLICATE_ROW = "duplicate row"
    ROW_SETS = "row sets"
    CO_PARTITIONING = "co-partitioning"
    INDEX_ENTRIES = "index entries"
    RECORDS = "key records"
    MARGIN = "margin"
    METADATA = "metadata"
    POINTER = "pointer"
    VERSION_LOG = "version log"
    SIDECAR = "sidecar"
    VIEW = "HATS view"


_RESTORE = (
    "restore the file from a copy with the recorded checksum, or ingest again; older versions stay readable"
)
_REBUILD = "ingest the catalog again; if it comes back, report a bug, as the writer made this file"
_METADATA = "restore it from its copy in _versions, or ingest the catalog again; it must not be edited"

_REPAIR = "`Catalog.repair` mends it, or the DAG catalog_repair"

_MENDS = {
    ProblemKind.MARGIN: "build the margin again; if it comes back, report it as a bug",
    ProblemKind.EXTRA_FILE: "move the file out of the catalog's folder: who reads by glob reads it too",
    ProblemKind.SIZE: _RESTORE,
    ProblemKind.CHECKSUM: _RESTORE,
    ProblemKind.MISSING_FILE: _RESTORE,
    ProblemKind.UNREADABLE: _RESTORE,
    ProblemKind.SWAPPED_FILE: "move the files back to the paths that metadata.json gives them",
    ProblemKind.THRESHOLD: "ingest the catalog again; if it comes back, report a bug in the plan",
    ProblemKind.CO_PARTITIONING: "take the column out of co_partitioned, or ingest with position_from, which "
    "gives rows the pixel of their object",
    ProblemKind.WRONG_PATH: _METADATA,
    ProblemKind.TOTALS: _METADATA,
    ProblemKind.OVERLAP: _METADATA,
    ProblemKind.METADATA: _METADATA,
    ProblemKind.POINTER: _REPAIR,
    ProblemKind.VIEW: _REPAIR,
    ProblemKind.SIDECAR: _RESTORE,
    ProblemKind.RECORDS: "restore the files from a copy, or roll back to a version that is right",
    ProblemKind.VERSION_LOG: "restore the file from a copy; no other file says what it said",
}


class Problem(Frozen):
    """One thing that is wrong: what, where, whom it affects, and how to mend it."""

    kind: ProblemKind
    path: str  # of the file, relative to the catalog's root; "" for the catalog as a whole
    message: str
    mend: str
    readers: bool = True  # whether who reads the catalog may get an error, or not what was written
    repairable: bool = False  # whether `repair` mends it

    @classmethod
    def of(
        cls,
        kind: ProblemKind,
        path: str,
        message: str,
        mend: str = "",
        *,
        readers: bool = True,
        repairable: bool = False,
    ) -> Problem:
        """A problem with the mend that its kind has, or the repair, unless one is given."""
        remedy = mend or (_REPAIR if repairable else _MENDS.get(kind, _REBUILD))
        return cls(kind=kind, path=path, message=message, mend=remedy, readers=readers, repairable=repairable)

    def by_repair(self) -> Problem:
        """The same, where another file says what this one said."""
        return self.model_copy(update={"repairable": True, "mend": _REPAIR})

    def __str__(self) -> str:
        whom = "" if self.readers else " (readers are not affected)"
        return f"{self.path or 'catalog'}: {self.kind}: {self.message}{whom}; {self.mend}"


def or_unread(problems: Iterable[Problem], unchecked: str) -> Iterator[Problem]:
    """The problems that a check finds, and one more where it cannot read what it looks at.

    Parameters
    ----------
    problems : iterable of Problem
    unchecked : str
        What is then not known, in words.

    Raises
    ------
    HipslakeError
        One for which trying again may help.
    """
    try:
        yield from problems
    except HipslakeError as error:
        if error.retryable:
            raise
        yield Problem.of(ProblemKind.UNREADABLE, "", f"{unchecked}: {error}")


class LeafFindings(Frozen):
    """The findings of one leaf file."""

    group: str
    path: str
    problems: tuple[Problem, ...] = ()
    rows: int = 0  # rows that could be decoded
    bytes: int = 0  # size on disk
    sha256: str = ""  # of the file as it is; "" where it could not be read
    digest: RowDigest | None = None  # where `_row` is stored


LOST = frozenset({ProblemKind.MISSING_FILE, ProblemKind.UNREADABLE})
"""Of a file with one of these it is not known what rows it holds."""


def content_problems(partition: Partition, *, size: int, sha256: str) -> Iterator[Problem]:
    """How the bytes of a file differ from what metadata.json says of it."""
    if size != partition.bytes:
        message = f"the file has {size} bytes, metadata.json says {partition.bytes}"
        yield Problem.of(ProblemKind.SIZE, partition.path, message)
    if sha256 != partition.sha256:
        message = f"the file's SHA-256 is {sha256}, metadata.json says {partition.sha256}"
        yield Problem.of(ProblemKind.CHECKSUM, partition.path, message)


class SeenFile(NamedTuple):
    """The content of a leaf file that was checked, kept for other versions that name the file."""

    rows: int
    bytes: int
    sha256: str
    digest: RowDigest | None
    lost: bool

    @classmethod
    def of(cls, found: LeafFindings) -> SeenFile:
        """The part of a file's findings that other versions need."""
        lost = any(problem.kind in LOST for problem in found.problems)
        return cls(found.rows, found.bytes, found.sha256, found.digest, lost)

    def differences(self, partition: Partition) -> Iterator[Problem]:
        """How the file differs from what another version says of it; that it is lost was said before."""
        if self.lost:
            return
        yield from content_problems(partition, size=self.bytes, sha256=self.sha256)
        if self.rows != partition.rows:
            message = f"the file has {self.rows} rows, metadata.json says {partition.rows}"
            yield Problem.of(ProblemKind.ROW_COUNT, partition.path, message)


@dataclass
class SeenFiles:
    """The files that were checked so far.

    Attributes
    ----------
    leaves : dict of str to SeenFile
        Leaf files of groups and margins, by path.
    others : set of str
        Paths of other files: sidecars, files of indices.
    margins_of : CatalogMetadata, optional
        A version whose margins were held against its leaves: where leaves are the same, they are not again.
    """

    leaves: dict[str, SeenFile] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    margins_of: CatalogMetadata | None = None


class MarginFindings(Frozen):
    """The findings of all margins for the rows of one leaf."""

    problems: tuple[Problem, ...] = ()
    rows: dict[str, int]  # per margin, the rows of its files that lie in the leaf


class ExpectedTotals(Frozen):
    """The rows that a run read, by its reports; each is published, rejected or superseded."""

    rows_read: int
    rows_rejected: int = 0
    rows_superseded: int = 0


class VerificationReport(Frozen):
    """The report of a verification. `ok` means that it found no problem."""

    catalog: str
    version: int | None
    problems: tuple[Problem, ...]
    rows: int  # rows decoded, of the first column group
    files: int  # leaf files looked at, over all groups
    bytes: int  # their size on disk
    seconds: float
    versions: tuple[int, ...] = ()  # all that were looked at, where it were several
    unchecked: tuple[str, ...] = ()  # of a catalog of others: what nothing tells

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def with_problems(self, problems: Iterable[Problem]) -> VerificationReport:
        """The same, with what else was found."""
        return self.model_copy(update={"problems": (*self.problems, *problems)})

    def raise_if_failed(self) -> None:
        """Raise what was found.

        Raises
        ------
        VerificationError
            If there is any problem; the message lists the first of them and counts the rest.
        """
        if self.ok:
            return
        what = f"catalog {self.catalog}" + (f", version {self.version}" if self.version is not None else "")
        lines = [f"  {problem}" for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            lines.append(f"  ... and {len(self.problems) - _SHOWN} more; the report lists them all")
        files = len({problem.path for problem in self.problems if problem.path})
        raise VerificationError(
            f"{what}: {len(self.problems)} problem{'s' if len(self.problems) > 1 else ''} "
            f"in {files} of {self.files} files\n" + "\n".join(lines)
        )
