"""Verification of catalogs of others: all that can be told without metadata of ours, and what cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hipslake.catalog.checks.findings import LeafFindings, Problem, ProblemKind, VerificationReport
from hipslake.catalog.foreign.foreign_leaves import ForeignLeaves, ForeignMargin
from hipslake.catalog.foreign.foreign_metadata import GROUP, ForeignMetadata
from hipslake.catalog.foreign.listed_leaves import ListedLeaves, leaves_by_listing, leaves_by_metadata
from hipslake.catalog.foreign.property_files import number_in
from hipslake.catalog.foreign_rows import files_of_leaf, foreign_rows
from hipslake.catalog.leaf_form import LeafForm, form_of, given_schema
from hipslake.engine.model import Counter, Engine
from hipslake.errors import HipslakeError, StorageError, VerificationError
from hipslake.sphere.coordinates import positions
from hipslake.sphere.pixels import HEALPIX_COLUMN, Pixel
from hipslake.sphere.stored_pixels import lie_elsewhere
from hipslake.storage.folder import Storage
from hipslake.storage.parquet_tail import parquet_tail

_RESULT = pa.schema([("leaf", pa.int64()), ("finding", pa.string())])
_ASK = "ask who publishes the catalog, or take a copy that is whole"
_TASKS_PER_CORE = 4

NOT_CHECKED = (
    "checksums of leaf files: the catalog names none",
    "whether rows are missing, stand twice or were changed: nothing says what they were",
)
"""What no catalog of others tells."""


def verify_foreign(metadata: ForeignMetadata, engine: Engine) -> VerificationReport:
    """Verify a catalog of others.

    Every value of every column is read. Looked at are the files that are named and those that are there, the
    rows of each leaf and of all, the columns of each file, `_healpix_29` against the leaf and against the
    position, and whether leaves overlap; of margins, that no row is at home in the pixel that it is filed
    under.

    Parameters
    ----------
    metadata : ForeignMetadata
    engine : Engine

    Returns
    -------
    VerificationReport
        All problems; `unchecked` says what nothing tells.

    Raises
    ------
    StorageError
        The store did not answer.
    """
    begin = time.monotonic()
    problems, rows, files, size = [], 0, 0, 0
    unchecked = [*NOT_CHECKED]
    for leaves in (metadata.leaves, *_margins(metadata)):
        is_margin = leaves.tree.kind == "margin"
        try:
            named = leaves.listed
            leaves.schema  # noqa: B018 - whether it can be told
        except StorageError:
            raise
        except HipslakeError as error:
            kind = ProblemKind.OVERLAP if isinstance(error, VerificationError) else ProblemKind.METADATA
            problems.append(_problem(kind, "", str(error)))
            continue
        problems += _list_problems(leaves, named)
        task = ForeignLeavesTask(leaves, is_margin, _tasks(engine, len(named)), engine.counter())
        found = [
            LeafFindings.model_validate_json(text)
            for batch in engine.run(task, tasks=task.tasks, result=_RESULT).sort_by("leaf").to_batches()
            for text in batch.column("finding").to_pylist()
        ]
        counted = sum(each.rows for each in found)
        problems += [problem for each in found for problem in each.problems]
        problems += _total_problems(leaves, counted)
        unchecked += _unchecked(leaves, is_margin)
        files, size = files + len(found), size + sum(each.bytes for each in found)
        rows += counted if leaves is metadata.leaves else 0
    unchecked += [f"entries of the index of column {column!r}" for column in metadata.indices_of_others]
    return VerificationReport(
        catalog=metadata.catalog,
        version=metadata.version,
        problems=tuple(problems),
        rows=rows,
        files=files,
        bytes=size,
        seconds=round(time.monotonic() - begin, 3),
        unchecked=tuple(dict.fromkeys(unchecked)),
    )


@dataclass
class ForeignLeavesTask:
    """Reads leaves of others, and says what is wrong with each.

    Attributes
    ----------
    leaves : ForeignLeaves
    is_margin : bool
        Whether rows belong beside their pixels, and not into them.
    tasks : int
    done : Counter
        Rows verified so far.
    """

    leaves: ForeignLeaves
    is_margin: bool
    tasks: int
    done: Counter

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        """Verify the leaves of a task; give what was found in each, as JSON."""
        listed = self.leaves.listed
        count = len(listed)
        for at in range(task * count // self.tasks, (task + 1) * count // self.tasks):
            pixel = Pixel(int(listed.order[at]), int(listed.npix[at]))
            rows = None if listed.rows is None else int(listed.rows[at])
            storage, path = self.leaves.tree.storage, listed.paths[at].as_py()
            found = verify_foreign_leaf(
                storage, self.leaves.schema, path, pixel, rows, is_margin=self.is_margin
            )
            self.done.add(found.rows)
            yield pa.record_batch([[at], [found.model_dump_json()]], schema=_RESULT)


def verify_foreign_leaf(
    storage: Storage,
    schema: pa.Schema,
    path: str,
    pixel: Pixel,
    rows: int | None,
    *,
    is_margin: bool = False,
    group: str = GROUP,
) -> LeafFindings:
    """Read one leaf whole, and say what is wrong with it.

    Parameters
    ----------
    storage : Storage
    schema : pyarrow.Schema
        Of the catalog, with the form of the files.
    path : str
        Of the leaf.
    pixel : Pixel
        Where it is filed.
    rows : int or None
        How many it is said to have; None: nobody says.
    is_margin : bool
        Whether rows belong beside the pixel, and not into it.
    group : str
        For the findings.

    Raises
    ------
    StorageError
        The store did not answer.
    """
    form = form_of(schema)
    assert form is not None
    problems: list[Problem] = []
    size = 0
    try:
        for file in files_of_leaf(storage, path, form.folders):
            if not storage.exists(file):
                return _lost(group, path, ProblemKind.MISSING_FILE, "the file is named, and not there")
            tail = parquet_tail(storage, file)
            size += tail.size
            problems += _schema_problems(schema, form, file, tail.footer.schema.to_arrow_schema())
        if problems:
            return LeafFindings(group=group, path=path, problems=tuple(problems), bytes=size)
        found = foreign_rows(storage, path, schema, schema.names)
    except StorageError:
        raise
    except (HipslakeError, pa.ArrowException, OSError) as error:
        return _lost(group, path, ProblemKind.UNREADABLE, str(error).partition("\n")[0])
    if rows is not None and found.num_rows != rows:
        message = f"the leaf has {found.num_rows} rows, and {rows} are named"
        problems.append(_problem(ProblemKind.ROW_COUNT, path, message))
    if form.healpix != "none":
        problems += _place_problems(form, path, pixel, found, is_margin=is_margin)
    return LeafFindings(group=group, path=path, problems=tuple(problems), rows=found.num_rows, bytes=size)


def _place_problems(
    form: LeafForm, path: str, pixel: Pixel, rows: pa.Table, *, is_margin: bool
) -> Iterator[Problem]:
    h29 = rows[HEALPIX_COLUMN].to_numpy()
    start, stop = pixel.interval
    inside = (h29 >= start) & (h29 < stop)
    wrong = inside if is_margin else ~inside
    if wrong.any():
        at = int(np.argmax(wrong))
        where = "in its pixel, and not beside it" if is_margin else "outside of its pixel"
        message = (
            f"{int(wrong.sum())} rows lie {where}; the first is row {at}, with {HEALPIX_COLUMN} {h29[at]}"
        )
        yield _problem(ProblemKind.MARGIN if is_margin else ProblemKind.MEMBERSHIP, path, message)
    if form.healpix == "stored" and form.ra:
        ra, dec = positions(rows[form.ra], rows[form.dec])
        good = np.isfinite(ra) & (np.abs(dec) <= 90.0)
        differs = ~good
        differs[good] = lie_elsewhere(ra[good], dec[good], h29[good])
        if differs.any():
            at = int(np.argmax(differs))
            message = (
                f"{int(differs.sum())} rows have another {HEALPIX_COLUMN} than their position; the first is "
                f"row {at}, with {form.ra} {ra[at]}, {form.dec} {dec[at]} and {h29[at]}"
            )
            yield _problem(ProblemKind.POSITION, path, message)


def _schema_problems(schema: pa.Schema, form: LeafForm, path: str, stored: pa.Schema) -> Iterator[Problem]:
    wanted = given_schema(schema)
    computed = {HEALPIX_COLUMN} if form.healpix == "computed" else set()
    for field in wanted:
        if field.name in computed:
            continue
        at = stored.get_field_index(field.name)
        if at < 0:
            yield _problem(ProblemKind.SCHEMA, path, f"column {field.name!r} is missing")
        elif field.name != HEALPIX_COLUMN and stored.field(at).type != field.type:
            message = f"column {field.name!r} is {stored.field(at).type}, and {field.type} in the catalog"
            yield _problem(ProblemKind.SCHEMA, path, message)
    for name in stored.names:
        if name not in wanted.names:
            yield _problem(ProblemKind.SCHEMA, path, f"column {name!r} is none of the catalog")


def _list_problems(leaves: ForeignLeaves, named: ListedLeaves) -> Iterator[Problem]:
    """Leaves that one list has and another has not."""
    known = set(named.paths.to_pylist())
    others = [("_metadata", leaves_by_metadata(leaves.tree)), ("the folder", leaves_by_listing(leaves.tree))]
    if leaves.tree.kind == "index":
        return
    for what, other in others:
        if other is None:
            continue
        there = set(other.paths.to_pylist())
        for path in sorted(there - known):
            message = (
                f"{what} has the leaf, and the list of partitions does not, so that readers pass it over"
            )
            yield _problem(ProblemKind.EXTRA_FILE, path, message)
        if what == "_metadata":
            for path in sorted(known - there):
                yield _problem(ProblemKind.METADATA, path, "the leaf is no part of _metadata")


def _total_problems(leaves: ForeignLeaves, counted: int) -> Iterator[Problem]:
    said = number_in(leaves.tree.properties, "hats_nrows", leaves.tree.where)
    if said is not None and said != counted:
        message = f"{leaves.tree.file} says that there are {said} rows, and there are {counted}"
        yield _problem(ProblemKind.TOTALS, leaves.tree.path(leaves.tree.file), message)


def _unchecked(leaves: ForeignLeaves, is_margin: bool) -> Iterator[str]:
    name = leaves.tree.name
    if leaves.listed.rows is None:
        yield f"rows per leaf of {name}: no list of its partitions counts them"
    if "hats_nrows" not in leaves.tree.properties:
        yield f"rows of {name} in all: its properties do not say them"
    if leaves.form.healpix == "none":
        yield f"where the rows of {name} lie: they have no positions"
    elif not leaves.form.ra:
        yield f"positions of {name}: its properties name no columns of them"
    if is_margin:
        yield f"whether the margin {name} has every row that it should have"


def _margins(metadata: ForeignMetadata) -> Iterator[ForeignLeaves]:
    for margin in metadata.margins:
        assert isinstance(margin, ForeignMargin)
        yield margin.leaves_of


def _tasks(engine: Engine, leaves: int) -> int:
    return max(1, min(leaves, _TASKS_PER_CORE * engine.cores))


def _problem(kind: ProblemKind, path: str, message: str) -> Problem:
    return Problem.of(kind, path, message, _ASK)


def _lost(group: str, path: str, kind: ProblemKind, message: str) -> LeafFindings:
    return LeafFindings(group=group, path=path, problems=(_problem(kind, path, message),))
