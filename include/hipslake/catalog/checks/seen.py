"""Files that several versions name, each read once: what the first version to look at one found in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hipslake.catalog.checks.findings import LeafFindings, Problem, ProblemKind
from hipslake.catalog.metadata import Partition
from hipslake.catalog.row_sets import RowDigest

LOST = {ProblemKind.MISSING_FILE, ProblemKind.UNREADABLE}
"""Of a file with one of these it is not known what rows it holds."""


class SeenFile(NamedTuple):
    """What a leaf file held, without what is wrong with it."""

    rows: int
    bytes: int
    sha256: str
    digest: RowDigest | None
    lost: bool

    @classmethod
    def of(cls, found: LeafFindings) -> SeenFile:
        """What is to be remembered of a file."""
        lost = any(problem.kind in LOST for problem in found.problems)
        return cls(found.rows, found.bytes, found.sha256, found.digest, lost)

    def differences(self, partition: Partition) -> Iterator[Problem]:
        """How the file differs from what another version says of it."""
        if self.lost:  # which was said
            return
        for kind, name, found, said in (
            (ProblemKind.SIZE, "bytes", self.bytes, partition.bytes),
            (ProblemKind.ROW_COUNT, "rows", self.rows, partition.rows),
        ):
            if found != said:
                yield Problem.of(
                    kind, partition.path, f"the file has {found} {name}, metadata.json says {said}"
                )
        if self.sha256 != partition.sha256:
            message = f"the file's SHA-256 is {self.sha256}, metadata.json says {partition.sha256}"
            yield Problem.of(ProblemKind.CHECKSUM, partition.path, message)


@dataclass
class SeenFiles:
    """What was looked at so far.

    Attributes
    ----------
    leaves : dict of str to SeenFile
        Leaf files of groups and margins, by path.
    others : set of str
        Paths of other files: sidecars, files of indices.
    """

    leaves: dict[str, SeenFile] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
