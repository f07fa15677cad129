"""The state of one verification: findings of leaves come in, the report on the whole version comes out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.checks.findings import (
    LOST,
    ExpectedTotals,
    LeafFindings,
    MarginFindings,
    Problem,
    ProblemKind,
    SeenFile,
    SeenFiles,
    VerificationReport,
)
from hipslake.catalog.checks.leaf_checks import LeafRules
from hipslake.catalog.checks.leaf_lists import Leaf
from hipslake.catalog.checks.metadata_checks import extra_files, group_problems, total_problems
from hipslake.catalog.checks.row_checks import RowRules, fault_problem, repeated
from hipslake.catalog.checks.row_comparison import RowComparison
from hipslake.catalog.checks.sidecar_checks import (
    gone_object_problems,
    increment_problems,
    partition_sidecar_problems,
    stamp_problems,
)
from hipslake.catalog.checks.view_checks import (
    hats_problems,
    marker_problems,
    picture_problems,
    second_name_problems,
)
from hipslake.catalog.layouts import HATS, tree_marker
from hipslake.catalog.leaf_form import form_of, given_schema
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment, Margin, Partition
from hipslake.catalog.row_sets import RowDigest, RowNumbering, digest_of_range, row_text
from hipslake.catalog.schema import ICRS_COLUMNS, ROW_COLUMN, schema_text
from hipslake.errors import CatalogFormatError
from hipslake.specs.catalog_spec import Layout
from hipslake.storage.folder import Storage

_SLICE = 4096  # partitions turned into objects at a time
_NUMBERS_PER_ROW = 64  # where there are more, far more rows were rejected than came, or a number is damaged


@dataclass
class _Group:
    """The sums over the leaf files of one group, or of a margin."""

    rows: int = 0
    digest: RowDigest = field(default_factory=RowDigest)
    lost: bool = False  # rows could not be read, so sums say nothing


class Verification:
    """Collects the findings of all leaves of a version, and draws up the report.

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
        self._problems += stamp_problems(storage, metadata.adopted)
        self._problems += gone_object_problems(storage, metadata)
        self._tables: dict[str, pa.Table] = {}
        self._groups = {each.name: _Group() for each in metadata.with_files}
        self._margin_rows = {margin.name: 0 for margin in metadata.margins}
        self._files = self._bytes = 0
        self._misplaced: dict[str, str] = {}  # path to the checksum of what lies there
        self._damaged: set[str] = set()  # paths of files whose rows say nothing about those of others
        self._compared: RowComparison | None = None
        self._leaf_problems: list[Problem] = []
        for each in metadata.with_files:
            self._take_group(each)
        self._problems += [*picture_problems(storage, metadata), *marker_problems(storage, metadata)]
        if len(self._tables) == len(metadata.with_files):
            self._problems += extra_files(storage, metadata, self._tables)

    @property
    def beside(self) -> tuple[Problem, ...]:
        """The problems of the metadata and of all files but the leaf files, which are not read."""
        return tuple(self._problems)

    @property
    def found(self) -> tuple[Problem, ...]:
        """All problems so far, those of leaves among them."""
        return (*self._problems, *self._leaf_problems)

    @property
    def schemas_of_others(self) -> dict[str, pa.Schema]:
        """The schemas of the groups whose leaves others wrote."""
        found = {group.name: group.to_arrow() for group in self._metadata.groups}
        return {name: schema for name, schema in found.items() if form_of(schema) is not None}

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
        """The rules for the files of every group and margin, by its name."""
        return {each.name: self.rules(each.name) for each in self._metadata.with_files}

    def rules(self, group: str) -> LeafRules:
        """The rules for all leaf files of a group, or all files of a margin."""
        margin = next((margin for margin in self._metadata.margins if margin.name == group), None)
        described, position = self._metadata.group(margin.group if margin else group), self._metadata.position
        names = set(described.to_arrow().names)
        columns: dict[str, Any] = {}
        if position.placed_by is not None:  # where a row was seen does not say where it lies
            columns = {"ra": position.icrs_ra or "", "dec": position.icrs_dec or ""}
        else:
            placed = {position.ra, position.dec} <= names
            # Where the source has ICRS degrees itself, `icrs_ra` names the source's own column.
            added = position.icrs_ra == ICRS_COLUMNS[0] and set(ICRS_COLUMNS) <= names
            if placed:
                columns = position.model_dump(include={"ra", "dec", "unit", "frame"})
            if added:
                where = ("icrs_ra", "icrs_dec") if placed else ("ra", "dec")  # these alone say where rows lie
                columns |= zip(where, ICRS_COLUMNS, strict=True)
        return LeafRules(
            layout=self._metadata.layout,
            gathers=self._metadata.gathers,
            group=group,
            arrow_schema=schema_text(given_schema(described.to_arrow()))
            if margin
            else described.arrow_schema,
            write_id=self._metadata.write_id,
            rows=RowRules(
                stores_rows=ROW_COLUMN in names,
                outside=margin is not None,
                increments={} if margin else self._row_numbers,
                **columns,
            ),
            threshold=None if margin else described.threshold,
        )

    def leaves(self) -> Iterator[Leaf]:
        """The leaf files to look at, group by group along the curve.

        What was looked at before is not given, but counts for this version too.
        """
        known = self._seen.leaves if self._seen is not None else {}
        for name, partition in self._all_leaves(self._tables):
            before = known.get(partition.path)
            if before is None:
                yield name, partition
            else:
                self._count(name, before)
                self._leaf_problems += before.differences(partition)

    def _all_leaves(self, groups: Iterable[str]) -> Iterator[Leaf]:
        for name in groups:
            table = self._tables[name]
            for start in range(0, table.num_rows, _SLICE):
                for row in table.slice(start, _SLICE).to_pylist():
                    yield name, Partition.model_construct(**row)  # also what is no valid partition

    def add(self, found: LeafFindings) -> None:
        """Take what was found in one leaf."""
        leaf = SeenFile.of(found)
        self._count(found.group, leaf)
        if self._seen is not None:
            self._seen.leaves[found.path] = leaf
        self._files += 1
        self._bytes += found.bytes
        self._leaf_problems += found.problems
        kinds = {problem.kind for problem in found.problems}
        if ProblemKind.CHECKSUM in kinds:
            self._misplaced[found.path] = found.sha256
        if kinds & {ProblemKind.CHECKSUM, *LOST}:
            self._damaged.add(found.path)

    def _count(self, name: str, leaf: SeenFile) -> None:
        group = self._groups[name]
        group.rows += leaf.rows
        group.lost |= leaf.lost
        if leaf.digest is not None:
            group.digest += leaf.digest

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Take what was found in several leaves together."""
        self._problems += problems

    @property
    def numbering(self) -> RowNumbering:
        """Of all rows that the version can have."""
        return RowNumbering(self._row_numbers)

    @property
    def numbered_groups(self) -> tuple[str, ...]:
        """The column groups whose rows can be told apart, and were not shown to be each there once.

        Sums of hashes show it, unless rows were rejected or superseded, as nobody knows which numbers those
        had. To be asked for when `add` was called for every leaf.
        """
        names = [group.name for group in self._metadata.groups if group.name in self._tables]
        stored = tuple(name for name in names if self.rules(name).rows.stores_rows)
        if not self._numbers_are_known:
            return ()
        complete = not self._metadata.rows_left_out and all(
            not self._groups[name].lost and self._groups[name].digest.rows == self._all_rows
            for name in stored
        )
        return () if complete else stored

    @property
    def _numbers_are_known(self) -> bool:
        """Whether increments can be read, and give no more row numbers than any that there were rows for."""
        read = max((group.rows for group in self._groups.values()), default=0)
        return 0 < self.numbering.size <= _NUMBERS_PER_ROW * (read + _SLICE)

    def whole_leaves(self, groups: Iterable[str]) -> Iterator[Leaf]:
        """The leaf files of some groups that are what was written."""
        return (leaf for leaf in self._all_leaves(groups) if leaf[1].path not in self._damaged)

    def add_rows(self, compared: RowComparison, groups: Iterable[str]) -> None:
        """Take what a comparison of the rows of `whole_leaves` has found."""
        self._compared = compared
        if not compared.repeated:
            return
        leaves = {leaf[1].path: number for number, leaf in enumerate(self.whole_leaves(groups))}
        self._leaf_problems = [
            each
            for each in self._leaf_problems
            if each.kind is not ProblemKind.DUPLICATE_ROW or each.path not in leaves
        ]
        for path, number in leaves.items():
            if number in compared.repeated:
                count, rows = compared.repeated[number]
                self._leaf_problems.append(fault_problem(path, *repeated(count, rows[0])))

    @property
    def leaves_can_be_read(self) -> bool:
        """Whether the rows of all leaf files could be read, after `add` was called for each."""
        return not self._damaged and not any(group.lost for group in self._groups.values())

    @property
    def margins_can_be_checked(self) -> bool:
        """Whether there are margins, and all leaf files are as they were, after `add` was called for each."""
        return bool(self._metadata.margins) and self.leaves_can_be_read and not self._leaf_problems

    def add_margins(self, found: MarginFindings) -> None:
        """Take what the margins were found to hold of one leaf."""
        self._leaf_problems += found.problems
        for name, rows in found.rows.items():
            self._margin_rows[name] += rows

    def conclude_margins(self, margin_rows: Mapping[str, int]) -> None:
        """Say which margins hold rows of no leaf, after `add_margins` was called for every leaf.

        Parameters
        ----------
        margin_rows : mapping of str to int
            Of each margin, the rows of the files that were looked at.
        """
        for name, rows in margin_rows.items():
            strange = rows - self._margin_rows[name]
            if strange:
                message = f"margin {name!r} holds {strange} rows that lie in no leaf"
                self._problems.append(Problem.of(ProblemKind.MARGIN, "", message))

    def report(self) -> VerificationReport:
        """Conclude, after `add` was called for every leaf."""
        problems = [*self._problems, *self._together(), *self._swapped(), *self._leaf_problems]
        return VerificationReport(
            catalog=self._metadata.catalog,
            version=self._metadata.version,
            problems=tuple(problems),
            rows=self._groups[self._metadata.groups[0].name].rows,
            files=self._files,
            bytes=self._bytes,
            seconds=round(time.monotonic() - self._started, 3),
        )

    @cached_property
    def _row_numbers(self) -> dict[int, int]:
        """How many row numbers each increment has given, by ordinal: what was left out has some too."""
        return {each.ordinal: each.rows + each.left_out for each in self._increments or ()}

    @cached_property
    def _all_rows(self) -> int:
        """The `rows` of the digest of every row once, where none were left out."""
        numbered = (digest_of_range(ordinal, 0, size) for ordinal, size in self._row_numbers.items())
        return sum(numbered) % (1 << 64)

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
            found = partition_sidecar_problems(self._storage, group.sidecars or ())
            self._problems += found or [Problem.of(ProblemKind.UNREADABLE, "", str(error))]
            self._groups[group.name].lost = True
            return
        self._tables[group.name] = table
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

    def _together(self) -> Iterator[Problem]:
        """The checks over all leaves of a group, or all groups; left out where rows could not be read."""
        names = [group.name for group in self._metadata.groups]
        whole = {name: self._groups[name] for name in names if not self._groups[name].lost}
        for name, group in whole.items():
            if group.rows != self._metadata.total_rows:
                message = f"group {name!r}: {group.rows} rows were read from its files, the catalog says "
                yield Problem.of(ProblemKind.TOTALS, "", f"{message}{self._metadata.total_rows}")
        first, *others = (group.name for group in self._metadata.groups)
        for other in others:
            if first in whole and other in whole and whole[first].digest != whole[other].digest:
                yield self._differing(first, other)
        numbered = not self._metadata.rows_left_out and self.rules(first).rows.stores_rows
        known = numbered and self._numbers_are_known and first in whole and self._compared is None
        if known and whole[first].digest.rows != self._all_rows:
            message = f"group {first!r} does not hold every _row of every increment exactly once"
            yield Problem.of(ProblemKind.ROW_IDENTITY, "", message)

    def _differing(self, first: str, other: str) -> Problem:
        what = f"groups {first!r} and {other!r} do not hold the same rows"
        if self._groups[first].digest.rows == self._groups[other].digest.rows:
            return Problem.of(ProblemKind.ROW_SETS, "", f"{what}: the same _row has another _healpix_29")
        parts = []
        missing = self._compared.missing if self._compared is not None else {}
        for here, there in ((first, other), (other, first)):
            count, rows = missing.get((here, there), (0, []))
            if count:
                shown = "; ".join(map(row_text, rows))
                more = "; ..." if count > len(rows) else ""
                parts.append(f"{count} of {here!r} are not in {there!r} ({shown}{more})")
        return Problem.of(ProblemKind.ROW_SETS, "", ": ".join([what, ", ".join(parts)]) if parts else what)

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
