"""The rules that datasets of a cube keep: names, columns, types, keys without nulls, no duplicate cells."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.dataset import listed
from hipslake.cube.row_codes import bounds_of
from hipslake.cube.sorting import sorted_by
from hipslake.errors import CubeError, CubeRowsError
from hipslake.specs.base import NAME_PATTERN
from hipslake.specs.cube_spec import CubeColumns

_PLAIN = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_floating,
)


def check_name(what: str, name: object) -> None:
    """Refuse a name of a cube or a dataset that could be no folder.

    Parameters
    ----------
    what : str
        `cube` or `dataset`, for the message.
    name : object

    Raises
    ------
    CubeError
    """
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        raise CubeError(
            f"{name!r} is no name of a {what}; take lower-case letters, digits and _, a letter first, and 63 "
            "at most"
        )


def check_cut(cube: CubeColumns, name: str, partition_columns: Sequence[str]) -> None:
    """Refuse partition columns of a dataset that are not its cube's.

    Parameters
    ----------
    cube : CubeColumns
    name : str
        Of the dataset.
    partition_columns : sequence of str
        By which its files are to be cut.

    Raises
    ------
    CubeError
        One is named twice, or the cube has none of that name, or the seed is not cut by all.
    """
    every = ", ".join(cube.partition_columns)
    twice = [each for each, count in Counter(partition_columns).items() if count > 1]
    if twice:
        raise CubeError(f"dataset {name!r}: partition column {listed(twice)} is named twice; name it once")
    strange = set(partition_columns) - set(cube.partition_columns)
    if strange:
        raise CubeError(
            f"dataset {name!r}: {listed(strange)} is none of the cube's partition columns ({every})"
        )
    if name == cube.seed and set(partition_columns) != set(cube.partition_columns):
        raise CubeError(f"the seed {name!r} is cut by all partition columns ({every})")


def check_column_names(name: str, columns: Sequence[str]) -> None:
    """Refuse rows of a dataset in which a column comes twice.

    Raises
    ------
    CubeRowsError
    """
    twice = {each for each in columns if columns.count(each) > 1}
    if twice:
        raise CubeRowsError(f"dataset {name!r}: column {listed(twice)} comes twice; rename one of them")


def check_schema(
    cube: CubeColumns, name: str, schema: pa.Schema, partition_columns: Sequence[str] | None = None
) -> None:
    """Refuse a schema that is none for a dataset of a cube.

    Parameters
    ----------
    cube : CubeColumns
    name : str
        Of the dataset.
    schema : pyarrow.Schema
        With the partition columns.
    partition_columns : sequence of str, optional
        By which the dataset's files are cut; by default those of the cube.

    Raises
    ------
    CubeRowsError
        A column is missing, comes twice, cannot be a key, or is a partition column that does not cut.
    """
    partitions = cube.partition_columns if partition_columns is None else tuple(partition_columns)
    check_column_names(name, schema.names)
    dimensions = [each for each in cube.dimension_columns if each in schema.names]
    lacking = set(cube.dimension_columns) - set(dimensions)
    if name == cube.seed and lacking:
        raise CubeRowsError(
            f"the seed {name!r} has no dimension column {listed(lacking)}; it needs them all, as it says "
            "which cells there are"
        )
    if not dimensions:
        raise CubeRowsError(
            f"dataset {name!r} has none of the dimension columns ({', '.join(cube.dimension_columns)}); it "
            "needs one at least to be joined by"
        )
    missing = set(partitions) - set(schema.names)
    if missing:
        raise CubeRowsError(
            f"dataset {name!r} has no partition column {listed(missing)}; add it, or name the "
            "partition_columns that it has in its spec"
        )
    uncut = (set(cube.partition_columns) - set(partitions)) & set(schema.names)
    if uncut:
        raise CubeRowsError(
            f"dataset {name!r} has the partition column {listed(uncut)}, but is not cut by it; add it to its "
            "partition_columns, or leave the column out"
        )
    for each in (*partitions, *dimensions, *cube.index_columns):
        if each in schema.names and not any(fits(schema.field(each).type) for fits in _PLAIN):
            raise CubeRowsError(
                f"dataset {name!r}: column {each!r} is {schema.field(each).type}, which cannot be compared; "
                "use integers, texts, booleans, dates or times"
            )


def check_no_nulls(cube: CubeColumns, name: str, rows: pa.Table, partition_columns: Sequence[str]) -> None:
    """Refuse rows with null, or NaN, in a partition, dimension or index column.

    Raises
    ------
    CubeRowsError
        Names the first such column, and how many rows.
    """
    for role, columns in (
        ("partition", partition_columns),
        ("dimension", cube.dimension_columns),
        ("index", cube.index_columns),
    ):
        for column in sorted(set(columns) & set(rows.column_names)):
            floats = pa.types.is_floating(rows.schema.field(column).type)
            nulls = pc.sum(pc.is_null(rows.column(column), nan_is_null=floats)).as_py() or 0
            if nulls:
                raise CubeRowsError(
                    f"dataset {name!r}: {role} column {column!r} is null in {nulls} of {rows.num_rows} rows; "
                    "fill or leave out these rows"
                )


def check_cells(name: str, rows: pa.Table, cell: Sequence[str], *, cells: int | None = None) -> pa.Table:
    """Refuse a cell that comes twice; return the rows in the order of their cells.

    Parameters
    ----------
    name : str
        Of the dataset.
    rows : pyarrow.Table
    cell : sequence of str
        The partition and dimension columns of the dataset.
    cells : int, optional
        How many cells come more than once, where `rows` are not all of them.

    Raises
    ------
    CubeRowsError
        Shows one such cell, and the columns in which its rows differ.
    """
    ordered = sorted_by(rows, cell)
    bounds = bounds_of(ordered, cell)
    sizes = np.diff(bounds)
    if len(sizes) == ordered.num_rows:
        return ordered
    first = int(np.argmax(sizes > 1))
    twins = ordered.slice(int(bounds[first]), int(sizes[first]))
    key = ", ".join(f"{column}={twins.column(column)[0].as_py()!r}" for column in cell)
    differ = [each for each in rows.column_names if each not in cell and _differs(twins.column(each))]
    raise CubeRowsError(
        f"dataset {name!r}: {cells or int((sizes > 1).sum())} cells come more than once, such as {key} with "
        f"{twins.num_rows} rows, which "
        + (f"differ in {listed(differ)}" if differ else "are alike")
        + "; keep one row per cell"
    )


def check_datasets(cube: CubeColumns, schemas: Mapping[str, pa.Schema]) -> None:
    """Refuse datasets that are no cube together.

    Raises
    ------
    CubeError
        The seed is missing, an index column is nowhere, two datasets have a payload column each, or a shared
        column differs in type.
    """
    if cube.seed not in schemas:
        raise CubeError(
            f"the seed {cube.seed!r} is missing; there is {listed(schemas) or 'no dataset'}. The seed says "
            "which cells there are"
        )
    owners: dict[str, list[str]] = defaultdict(list)
    for name in sorted(schemas):
        for column in cube.payload(schemas[name].names):
            owners[column].append(name)
    shared = {column: names for column, names in owners.items() if len(names) > 1}
    if shared:
        raise CubeError(
            "a payload column belongs to one dataset, but "
            + "; ".join(f"{column!r} is in {' and '.join(names)}" for column, names in sorted(shared.items()))
            + "; rename it in one, or leave it out"
        )
    for column in (*cube.partition_columns, *cube.dimension_columns):
        kinds = {name: schemas[name].field(column).type for name in schemas if column in schemas[name].names}
        if len(set(kinds.values())) > 1:
            raise CubeError(
                f"column {column!r} joins datasets, but is "
                + ", ".join(f"{kind} in {name}" for name, kind in sorted(kinds.items()))
                + "; convert it to one type"
            )


def partition_values(dataset: str, heads: pa.Table, number: int, columns: Iterable[str]) -> dict[str, Any]:
    """The values of the partition columns in a row, by which its folder is named.

    Raises
    ------
    CubeRowsError
        A time lies outside of the years 1 to 9999, so that no folder can be named by it.
    """
    found = {}
    for name in columns:
        try:
            found[name] = heads.column(name)[number].as_py()
        except (OverflowError, ValueError):
            value = heads.column(name).slice(number, 1).combine_chunks()
            count = value.cast(pa.int32() if value.type == pa.date32() else pa.int64())[0]
            raise CubeRowsError(
                f"dataset {dataset!r}: partition column {name!r} of type {value.type} has the value {count}, "
                "which is outside of the years 1 to 9999; leave out such rows, or partition by another column"
            ) from None
    return found


def check_index_columns(cube: CubeColumns, schemas: Mapping[str, pa.Schema]) -> None:
    """Refuse an index column that no dataset has.

    Raises
    ------
    CubeError
    """
    known: Iterable[str] = {name for schema in schemas.values() for name in schema.names}
    strange = set(cube.index_columns) - set(known)
    if strange:
        raise CubeError(f"index_columns: no dataset has {listed(strange)}; the columns are {listed(known)}")


def _differs(column: pa.ChunkedArray) -> bool:
    values = column.to_pylist()
    return any(value != values[0] for value in values)
