"""What the findings of all leaves mean together, beside what the metadata says of itself."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.checks.findings import (
    ExpectedTotals,
    LeafFindings,
    MarginFindings,
    Problem,
    ProblemKind,
    VerificationReport,
)
from hipslake.catalog.checks.hats_files import hats_problems
from hipslake.catalog.checks.leaves import LeafRules
from hipslake.catalog.checks.margins import MarginChecks
from hipslake.catalog.checks.pictures import picture_problems
from hipslake.catalog.checks.rows import RowRules
from hipslake.catalog.checks.second_names import marker_problems, second_name_problems
from hipslake.catalog.checks.seen import SeenFile, SeenFiles
from hipslake.catalog.checks.sidecars import increment_problems, partition_sidecar_problems
from hipslake.catalog.checks.versions import extra_files, group_problems, margin_problems, total_problems
from hipslake.catalog.layouts import HATS, tree_marker
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment, Margin, Partition
from hipslake.catalog.row_sets import RowBitmap, RowDigest, digest_of_range, row_text
from hipslake.catalog.schema import ICRS_COLUMNS, ROW_COLUMN
from hipslake.errors import CatalogFormatError
from hipslake.specs.catalog_spec import Layout
from hipslake.storage.folder import Storage

MAX_BITMAP_BYTES = 1 << 30  # of all groups together: 4 billion rows in two groups
_SLICE = 4096  # partitions turned into objects at a time


@dataclass
class _Group:
    """What the leaves of one group, or of a margin, turned out to hold, together."""

    rows: int = 0
    digest: RowDigest = field(default_factory=RowDigest)
    lost: bool = False  # rows could not be read, so sums say nothing


class Verification:
    """Gathers what was found in the leaves of a version, and concludes.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
        What the files are held against; not necessarily committed yet.
    expected : ExpectedTotals, optional
        What the run's reports say was read.
    seen : SeenFiles, optional
        Files that other versions name too, and that were looked at; what is looked at now comes to them.
    """

    def __init__(
        self,
        storage: Storage,
        metadata: CatalogMetadata,
        expected: ExpectedTotals | None = None,
        seen: SeenFiles | None = None,
    ) -> None:
        self._storage = storage
        self._metadata = metadata
        self._started = time.monotonic()
        self._seen = seen
        self._problems: list[Problem] = []
        self._increments = self._read_increments()
        if self._increments is not None:
            self._problems += total_problems(metadata, self._increments, expected)
            others = seen.others if seen is not None else None
            self._problems += increment_problems(storage, self._increments, seen=others)
        self._tables: dict[str, pa.Table] = {}
        self._groups = {each.name: _Group() for each in metadata.with_files}
        self._margin_rows = {margin.name: 0 for margin in metadata.margins}
        self._files = self._bytes = 0
        self._misplaced: dict[str, str] = {}  # path to the checksum of what lies there
        self._leaf_problems: list[Problem] = []
        for each in metadata.with_files:
            self._take_group(each)
        self._problems += [*picture_problems(storage, metadata), *marker_problems(storage, metadata)]
        if len(self._tables) == len(metadata.with_files):
            self._problems += extra_files(storage, metadata, self._tables)

    @property
    def beside(self) -> tuple[Problem, ...]:
        """What is wrong with the metadata, and with what lies beside the leaf files; those are not read."""
        return tuple(self._problems)

    @property
    def files(self) -> int:
        """Leaf files to look at, or that were looked at before."""
        return sum(table.num_rows for table in self._tables.values())

    @property
    def rows(self) -> int:
        """Rows in them, as the metadata has it."""
        return sum(each.rows for each in self._metadata.with_files)

    @property
    def bytes(self) -> int:
        """Their bytes, as the metadata has it; margins are not counted."""
        return self._metadata.total_bytes

    @property
    def all_rules(self) -> dict[str, LeafRules]:
        """What the files of every group and margin are held to, by its name."""
        return {each.name: self.rules(each.name) for each in self._metadata.with_files}

    def rules(self, group: str) -> LeafRules:
        """What every leaf of a group, or every file of a margin, is held to; the same for all of them."""
        margin = next((margin for margin in self._metadata.margins if margin.name == group), None)
        described, position = self._metadata.group(margin.group if margin else group), self._metadata.position
        names = set(described.to_arrow().names)
        if position.placed_by is not None:  # where a row was seen does not say where it lies
            rows = RowRules(
                stores_rows=ROW_COLUMN in names,
                outside=margin is not None,
                ra=position.icrs_ra or "",
                dec=position.icrs_dec or "",
            )
        else:
            placed = {position.ra, position.dec} <= names
            # Where the source has ICRS degrees itself, `icrs_ra` names the source's own column.
            added = position.icrs_ra == ICRS_COLUMNS[0] and set(ICRS_COLUMNS) <= names
            rows = RowRules(stores_rows=ROW_COLUMN in names, outside=margin is not None)
            if placed:
                told = position.model_dump(include={"ra", "dec", "unit", "frame"})
                rows = rows.model_copy(update=told)
            if added:
                where = ("icrs_ra", "icrs_dec") if placed else ("ra", "dec")  # these alone say where rows lie
                rows = rows.model_copy(update=dict(zip(where, ICRS_COLUMNS, strict=True)))
        return LeafRules(
            catalog_uri=self._storage.uri(),
            layout=self._metadata.layout,
            gathers=self._metadata.gathers,
            group=group,
            arrow_schema=described.arrow_schema,
            write_id=self._metadata.write_id,
            rows=rows,
            threshold=None if margin else described.threshold,
        )

    def work(self) -> Iterator[tuple[LeafRules, Partition]]:
        """The arguments of `verify_partition`, leaf by leaf, along the curve in each group.

        What was looked at before is not given, but counts for this version too.
        """
        known = self._seen.leaves if self._seen is not None else {}
        for name, table in self._tables.items():
            rules = self.rules(name)
            for start in range(0, table.num_rows, _SLICE):
                for row in table.slice(start, _SLICE).to_pylist():
                    partition = Partition.model_construct(**row)  # also what is no valid partition
                    before = known.get(partition.path)
                    if before is None:
                        yield rules, partition
                    else:
                        self._count(name, before)
                        self._leaf_problems += before.differences(partition)

    def add(self, found: LeafFindings) -> None:
        """Take what was found in one leaf."""
        leaf = SeenFile.of(found)
        self._count(found.group, leaf)
        if self._seen is not None:
            self._seen.leaves[found.path] = leaf
        self._files += 1
        self._bytes += found.bytes
        self._leaf_problems += found.problems
        if any(problem.kind is ProblemKind.CHECKSUM for problem in found.problems):
            self._misplaced[found.path] = found.sha256

    def _count(self, name: str, leaf: SeenFile) -> None:
        group = self._groups[name]
        group.rows += leaf.rows
        group.lost |= leaf.lost
        if leaf.digest is not None:
            group.digest += leaf.digest

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Take what was found in several leaves together."""
        self._problems += problems

    def margin_checks(self) -> MarginChecks | None:
        """What holds the margins against the leaves; None if there are none, or files are not as they were.

        To be asked for when `add` was called for every leaf.
        """
        lost = any(group.lost for group in self._groups.values())
        if not self._metadata.margins or lost or self._leaf_problems:
            return None
        return MarginChecks(self._storage, self._metadata)

    def add_margins(self, found: MarginFindings) -> None:
        """Take what the margins were found to hold of one leaf."""
        self._leaf_problems += found.problems
        for name, rows in found.rows.items():
            self._margin_rows[name] += rows

    def conclude_margins(self) -> None:
        """Say which margins hold rows of no leaf, after `add_margins` was called for every leaf."""
        for margin in self._metadata.margins:
            strange = margin.rows - self._margin_rows[margin.name]
            if strange:
                message = f"margin {margin.name!r} holds {strange} rows that lie in no leaf"
                self._problems.append(Problem.of(ProblemKind.MARGIN, "", message))

    def report(self, seen: dict[str, RowBitmap] | None = None) -> VerificationReport:
        """Conclude, after `add` was called for every leaf.

        Parameters
        ----------
        seen : dict of str to RowBitmap, optional
            Per group, the rows seen; then differing groups are told row by row.
        """
        problems = [*self._problems, *self._together(seen or {}), *self._swapped(), *self._leaf_problems]
        return VerificationReport(
            catalog=self._metadata.catalog,
            version=self._metadata.version,
            problems=tuple(problems),
            rows=self._groups[self._metadata.groups[0].name].rows,
            files=self._files,
            bytes=self._bytes,
            seconds=round(time.monotonic() - self._started, 3),
        )

    def bitmaps(self) -> dict[str, RowBitmap]:
        """A bitmap for every group that stores `_row`; none where they would take too much memory."""
        # Rows are numbered in source order, rejected ones too.
        sizes = {i.ordinal: i.rows + i.rejects.rows for i in self._increments or ()}
        groups = [group.name for group in self._metadata.groups if self.rules(group.name).rows.stores_rows]
        if not sizes or len(groups) * RowBitmap.bytes_needed(sizes.values()) > MAX_BITMAP_BYTES:
            return {}
        return {name: RowBitmap(sizes) for name in groups}

    def _read_increments(self) -> tuple[Increment, ...] | None:
        try:
            return self._metadata.all_increments(self._storage)
        except (CatalogFormatError, FileNotFoundError) as error:
            assert self._metadata.earlier is not None
            path = self._metadata.earlier.path
            self._problems.append(Problem.of(ProblemKind.UNREADABLE, path, str(error)))
            return None

    def _take_group(self, group: GroupMetadata | Margin) -> None:
        try:
            table = group.table(self._storage)
        except (CatalogFormatError, FileNotFoundError) as error:
            found = partition_sidecar_problems(self._storage, group)
            self._problems += found or [Problem.of(ProblemKind.UNREADABLE, "", str(error))]
            self._groups[group.name].lost = True
            return
        self._tables[group.name] = table
        if isinstance(group, Margin):
            self._problems += margin_problems(group, table)
        else:
            self._problems += group_problems(self._metadata, group, table)
        view = list(hats_problems(self._storage, self._metadata, group, table))
        if self._has_tree(group.name):
            view += second_name_problems(self._storage, self._metadata, table)
        self._problems += view

    def _has_tree(self, group: str) -> bool:
        """Whether the step `view` has named the leaf files of older writes in the version's own."""
        if self._metadata.layout is Layout.HATS:
            return self._storage.is_file(HATS.view_file(self._metadata.write_id, group, "partition_info.csv"))
        return self._storage.is_file(tree_marker(self._metadata.write_id))

    def _together(self, seen: dict[str, RowBitmap]) -> Iterator[Problem]:
        """What only all leaves of a group, or all groups, can show. Says nothing where rows were lost."""
        names = [group.name for group in self._metadata.groups]
        whole = {name: self._groups[name] for name in names if not self._groups[name].lost}
        for name, group in whole.items():
            if group.rows != self._metadata.total_rows:
                yield Problem.of(
                    ProblemKind.TOTALS,
                    "",
                    f"group {name!r}: {group.rows} rows were read from its files, the catalog says "
                    f"{self._metadata.total_rows}",
                )
        first, *others = (group.name for group in self._metadata.groups)
        for other in others:
            if first in whole and other in whole and whole[first].digest != whole[other].digest:
                yield _differing(first, other, whole[first].digest, whole[other].digest, seen)
        stored = self.rules(first).rows.stores_rows
        numbered = stored and self._increments is not None and not self._metadata.rows_rejected
        if first in whole and numbered and first not in seen:
            yield from self._complete(first, whole[first].digest)

    def _complete(self, group: str, found: RowDigest) -> Iterator[Problem]:
        expected = sum(digest_of_range(i.ordinal, 0, i.rows) for i in self._increments or ()) % (1 << 64)
        if found.rows != expected:
            yield Problem.of(
                ProblemKind.ROW_IDENTITY,
                "",
                f"group {group!r} does not hold every _row of every increment exactly once",
            )

    def _swapped(self) -> Iterator[Problem]:
        """Files that are whole, but stand in another's place."""
        if not self._misplaced or not self._tables:
            return
        named = pa.concat_tables([table.select(["path", "sha256"]) for table in self._tables.values()])
        hashes = pa.array(self._misplaced.values(), pa.string())
        at = pc.index_in(hashes, value_set=named["sha256"]).to_pylist()
        for (path, _), place in zip(self._misplaced.items(), at, strict=True):
            if place is not None:
                owner = named["path"][place].as_py()
                yield Problem.of(ProblemKind.SWAPPED_FILE, path, f"holds the file that belongs to {owner}")


def _differing(
    first: str, other: str, digest: RowDigest, other_digest: RowDigest, seen: dict[str, RowBitmap]
) -> Problem:
    what = f"groups {first!r} and {other!r} do not hold the same rows"
    if digest.rows == other_digest.rows:
        return Problem.of(ProblemKind.ROW_SETS, "", f"{what}: the same _row has another _healpix_29")
    told = []
    for here, there in ((first, other), (other, first)) if {first, other} <= set(seen) else ():
        count, examples = seen[here].missing_from(seen[there], 3)
        if count:
            rows = "; ".join(map(row_text, examples))
            told.append(f"{count} of {here!r} are not in {there!r} ({rows}{'; ...' if count > 3 else ''})")
    return Problem.of(ProblemKind.ROW_SETS, "", ": ".join([what, ", ".join(told)]) if told else what)
