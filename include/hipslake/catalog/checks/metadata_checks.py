"""Checks of a version's metadata against itself, and against the files in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.catalog.checks.findings import ExpectedTotals, Problem, ProblemKind
from hipslake.catalog.hats.partition_statistics import STATISTICS_FILE
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Increment, Margin
from hipslake.catalog.partitions import pixel_ranges, summed_by_leaf, total_of
from hipslake.sphere.pixels import MAX_ORDER, Pixel, starts, stops
from hipslake.storage.folder import Storage

_BESIDE = ("data_thumbnail.parquet", STATISTICS_FILE)  # HATS keeps them beside the dataset


def group_problems(
    metadata: CatalogMetadata, group: GroupMetadata | Margin, partitions: pa.Table
) -> Iterator[Problem]:
    """Whether the partitions of a group or margin are disjoint pixels, have files of their own, and add up.

    Parameters
    ----------
    metadata : CatalogMetadata
    group : GroupMetadata or Margin
    partitions : pyarrow.Table
        `PARTITION_SCHEMA`, along the curve.
    """
    yield from _file_problems(group, partitions)
    if isinstance(group, GroupMetadata):
        leaves = partitions.group_by(["order", "npix"]).aggregate([]).num_rows
        if group.leaves != leaves:
            yield _wrong_sum(group, "leaves", group.leaves, leaves)
        if group.rows != metadata.total_rows:
            yield _total(
                f"group {group.name!r} has {group.rows} rows, the catalog says {metadata.total_rows}"
            )
        if metadata.gathers:
            partitions = summed_by_leaf(partitions)
            yield from _too_large(group, partitions)
    order, npix = partitions["order"].to_numpy().astype(np.int64), partitions["npix"].to_numpy()
    yield from _overlaps(order, npix, partitions["path"])


def _file_problems(group: GroupMetadata | Margin, partitions: pa.Table) -> Iterator[Problem]:
    for name, said, found in (
        ("rows", group.rows, total_of(partitions, "rows")),
        ("bytes", group.bytes, total_of(partitions, "bytes")),
        ("files", group.files, partitions.num_rows),
    ):
        if said != found:
            yield _wrong_sum(group, name, said, found)
    if pixel_ranges(partitions["order"].to_numpy(), partitions["npix"].to_numpy()) != group.pixels:
        message = f"the pixels of {_called(group)} are not those of its partitions"
        yield Problem.of(ProblemKind.METADATA, "", message)
    paths = pc.value_counts(partitions["path"].combine_chunks())
    for path in paths.filter(pc.greater(paths.field("counts"), 1)).field("values").to_pylist():
        yield Problem.of(ProblemKind.METADATA, path, f"two partitions of {_called(group)} name the file")


def _wrong_sum(group: GroupMetadata | Margin, name: str, said: int, found: int) -> Problem:
    return _total(f"{_called(group)} says {said} {name}, but its partitions add up to {found}")


def _called(group: GroupMetadata | Margin) -> str:
    return f"{'margin' if isinstance(group, Margin) else 'group'} {group.name!r}"


def _too_large(group: GroupMetadata, leaves: pa.Table) -> Iterator[Problem]:
    unit, limit = group.threshold.unit.value, group.threshold.value
    for leaf in leaves.filter(pc.greater(leaves[unit], limit)).to_pylist():
        message = f"the files of {Pixel(leaf['order'], leaf['npix'])} have {leaf[unit]} {unit} together"
        yield Problem.of(ProblemKind.THRESHOLD, leaf["path"], f"{message}, over the threshold of {limit}")


def _overlaps(order: np.ndarray, npix: np.ndarray, paths: pa.ChunkedArray) -> Iterator[Problem]:
    """Leaves are nested or disjoint: one that begins before an earlier one ends lies in it."""
    exists = (order >= 0) & (order <= MAX_ORDER)
    exists &= (npix >= 0) & (npix < np.int64(12) << (2 * np.clip(order, 0, MAX_ORDER)))
    for at in np.flatnonzero(~exists).tolist():
        message = f"there is no pixel {_pixel(order, npix, at)}"
        yield Problem.of(ProblemKind.METADATA, paths[at].as_py(), message)
    there = np.flatnonzero(exists)
    begin, end = starts(order[there], npix[there]), stops(order[there], npix[there])
    along = there[np.lexsort((-end, begin))]
    begin, end = starts(order[along], npix[along]), stops(order[along], npix[along])
    reach = np.maximum.accumulate(end)
    for at in (np.flatnonzero(begin[1:] < reach[:-1]) + 1).tolist():
        outer = int(np.searchsorted(reach, begin[at], side="right"))
        path, other = (paths[int(along[each])].as_py() for each in (at, outer))
        message = f"{_pixel(order, npix, along[at])} lies in {_pixel(order, npix, along[outer])}"
        yield Problem.of(ProblemKind.OVERLAP, path, f"{message}, which is a leaf too: {other}")


def _pixel(order: np.ndarray, npix: np.ndarray, at: int) -> Pixel:
    return Pixel(int(order[at]), int(npix[at]))


def total_problems(
    metadata: CatalogMetadata, increments: Sequence[Increment], expected: ExpectedTotals | None
) -> Iterator[Problem]:
    """Whether the catalog's totals add up, and equal what was read.

    Parameters
    ----------
    metadata : CatalogMetadata
    increments : sequence of Increment
        All of the version's.
    expected : ExpectedTotals or None
    """
    total_bytes = sum(group.bytes for group in metadata.groups)
    if metadata.total_bytes != total_bytes:
        yield _total(f"the catalog says {metadata.total_bytes} bytes, but its groups add up to {total_bytes}")
    rows = sum(increment.rows for increment in increments)
    beaten = metadata.key_records.rows_superseded if metadata.key_records is not None else 0
    if rows - beaten - metadata.rows_deleted != metadata.total_rows:
        less = f", {beaten} of them superseded" if beaten else ""
        less += f", {metadata.rows_deleted} of them deleted" if metadata.rows_deleted else ""
        yield _total(f"the increments have {rows} rows{less}, the catalog says {metadata.total_rows}")
    if (earlier := metadata.earlier) is not None:
        set_aside = increments[: len(earlier.writes)]
        for name, said, found in (
            ("rows", earlier.total_rows, sum(each.rows for each in set_aside)),
            ("rows read", earlier.rows_read, sum(each.sources.rows for each in set_aside)),
            ("rejected rows", earlier.rows_rejected, sum(each.rejects.rows for each in set_aside)),
            (
                "superseded rows",
                earlier.rows_superseded or 0,
                sum(each.superseded or 0 for each in set_aside),
            ),
            ("deletes", earlier.deletes or 0, sum(each.deletes for each in set_aside)),
        ):
            if said != found:
                message = f"metadata.json says {said} {name} of the earlier increments, which have {found}"
                yield _total(message, earlier.path)
    yield from _deletion_problems(metadata, increments)
    for increment in increments:
        if increment.sources.rows != increment.rows + increment.left_out:
            superseded = f", {increment.superseded} superseded" if increment.superseded else ""
            deletes = f", {increment.deletes} of deletes" if increment.deletes else ""
            yield _total(
                f"increment {increment.ordinal}: {increment.sources.rows} rows were read from the sources, "
                f"but metadata.json says {increment.rows} and {increment.rejects.rows} rejected"
                f"{superseded}{deletes}"
            )
    if expected is None:
        return
    left_out = expected.rows_rejected + expected.rows_superseded
    if expected.rows_read - left_out != metadata.total_rows:
        superseded = f" ({expected.rows_superseded} superseded)" if expected.rows_superseded else ""
        yield _total(
            f"the run read {expected.rows_read} rows and rejected {expected.rows_rejected}{superseded}, "
            f"but the catalog says {metadata.total_rows}"
        )
    for what in ("rejected", "superseded"):
        found, said = (getattr(each, f"rows_{what}") for each in (expected, metadata))
        if found != said:
            yield _total(f"the run {what} {found} rows, the catalog says {said}")


def _deletion_problems(metadata: CatalogMetadata, increments: Sequence[Increment]) -> Iterator[Problem]:
    """Whether deletions are of increments that there are, and take no more rows out than these have."""
    rows = {each.ordinal: each.rows for each in increments}
    keyed = metadata.key_records is not None
    for deletion in metadata.deletions or ():
        if keyed is not (deletion.rows_of is None):
            yield _total(f"deletion {deletion.ordinal} is not one of a catalog in its mode")
        if deletion.ordinal in rows:
            yield _total(f"deletion {deletion.ordinal} has the ordinal of an increment")
        for ordinal in sorted((deletion.rows_of or {}).keys() - rows.keys()):
            yield _total(f"deletion {deletion.ordinal} is of increment {ordinal}, which there is not")
    for ordinal, count in rows.items():
        if (gone := metadata.rows_deleted_of(ordinal)) > count:
            yield _total(f"{gone} rows of increment {ordinal} are deleted, which has {count}")


def _total(message: str, path: str = "") -> Problem:
    return Problem.of(ProblemKind.TOTALS, path, message)


def extra_files(
    storage: Storage, metadata: CatalogMetadata, tables: Mapping[str, pa.Table]
) -> Iterator[Problem]:
    """Data files in the version's write folder that the version does not name.

    Readers that find files by glob would take their rows too. What other writes left in their own folders
    belongs to other versions.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    tables : mapping of str to pyarrow.Table
        Partitions per group and margin.
    """
    listed = [e.path for e in storage.list(metadata.write_id, recursive=True) if _is_data(e.path)]
    if metadata.adopted is not None and metadata.adopted.copied:  # a leaf may be a folder of files
        of_others = f"{metadata.adopted.path}/"
        leaves = {path for table in tables.values() for path in table["path"].to_pylist()}
        listed = [
            path
            for path in listed
            if not path.startswith(of_others) or not {path, path.rpartition("/")[0]} & leaves
        ]
    known = [table["path"] for table in tables.values()]
    for table in tables.values():  # leaves of older writes may stand in the version's own tree too
        known.append(metadata.paths.of_other_writes(metadata.write_id, table["path"])[1])
    of_indices = pa.array([path for index in metadata.indices for path in index.paths], pa.string())
    named = pa.chunked_array([of_indices, *(chunk for column in known for chunk in column.chunks)])
    found = pa.array(listed, pa.string())
    for path in found.filter(pc.invert(pc.is_in(found, value_set=named))).to_pylist():
        message = "lies among the data, but metadata.json does not name it"
        yield Problem.of(ProblemKind.EXTRA_FILE, path, message)


def _is_data(path: str) -> bool:
    """Whether readers that glob would take the file: Parquet, or anything in a pixel's folder."""
    folders, name = path.split("/")[1:-1], path.rpartition("/")[2]
    if any(part.startswith(("_", ".")) for part in [*folders, name]):
        return False
    in_a_pixel = any(part.startswith("Norder=") for part in folders)
    return in_a_pixel or (name.endswith(".parquet") and name not in _BESIDE)
