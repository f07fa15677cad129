"""Stage 1 of a query: it is checked, and split into what it asks of each dataset. Nothing is read for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from hipslake.cube.dataset import CubeDataset, all_columns, listed
from hipslake.errors import CubeError
from hipslake.predicates.condition_text import parse_conditions
from hipslake.predicates.conditions import Conditions, Conjunction
from hipslake.specs.cube_spec import CubeColumns


@dataclass(frozen=True)
class Intention:
    """A query, checked.

    Attributes
    ----------
    dimension_columns : tuple of str
        That span the outcome's cells; fewer than the cube's is a projection.
    partition_by : tuple of str
        By which the outcome is grouped.
    conditions : Conjunction
    output_columns : tuple of str
        Of the outcome, sorted.
    load : dict of str to tuple of str
        Per dataset that takes part, the columns that are read of its files, sorted.
    before, after : dict of str to Conjunction
        Per dataset that takes part, the conditions that its indices can say something about; and those that
        its rows have to meet when they are read.
    restricted : frozenset of str
        Datasets, other than the seed, with a condition or a group on one of their own columns: cells that
        they lack are no part of the outcome.
    """

    dimension_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    conditions: Conjunction
    output_columns: tuple[str, ...]
    load: dict[str, tuple[str, ...]]
    before: dict[str, Conjunction]
    after: dict[str, Conjunction]
    restricted: frozenset[str]

    def needed_indices(self, datasets: Mapping[str, CubeDataset]) -> dict[str, tuple[str, ...]]:
        """The explicit indices that the query needs, per dataset, sorted."""
        asked = self.conditions.columns | frozenset(self.partition_by)
        return {name: tuple(sorted(datasets[name].secondary & asked)) for name in self.load}


def intend(
    cube: CubeColumns,
    datasets: Mapping[str, CubeDataset],
    columns: Iterable[str] | None = None,
    conditions: Conditions | str = None,
    partition_by: str | Sequence[str] | None = None,
    dimension_columns: str | Sequence[str] | None = None,
) -> Intention:
    """Check a query, and find what it reads of every dataset.

    Parameters
    ----------
    cube : CubeColumns
    datasets : mapping of str to CubeDataset
        Those that the query may look at, the seed among them.
    columns : iterable of str, optional
        Of the outcome, beside the dimension, partition and group columns, which it always has. By default
        all, less the dimension columns that are projected away.
    conditions : Conditions or str
        A text as `hipslake.predicates.condition_text.parse_conditions` takes it.
    partition_by : str or sequence of str, optional
        Indexed columns.
    dimension_columns : str or sequence of str, optional
        Some of the cube's.

    Raises
    ------
    CubeError
        A column is not there, not indexed, or cannot be kept in a projection.
    ConditionError
        A text is no conditions; or, as ConditionTypeError, a column is compared with a value of another type.
    """
    known = all_columns(datasets)
    if cube.seed not in datasets:
        raise CubeError(
            f"the seed {cube.seed!r} is missing; a query starts from its cells, so add it to datasets"
        )
    dimensions = _dimensions(cube, dimension_columns)
    groups = _groups(datasets, known, partition_by)
    wanted = conjunction(conditions, (each.schema for each in datasets.values()))
    _check_known("conditions", wanted.columns, known)
    for name in sorted(datasets):
        schema = datasets[name].schema
        wanted.on(schema.names).check(schema)
    output = _output(cube, known, columns, dimensions, groups)
    load = {
        name: tuple(sorted(kept))
        for name in sorted(datasets)
        if (kept := _load(cube, datasets[name], output, dimensions, wanted)) is not None
    }
    own = {*cube.dimension_columns, *cube.partition_columns}
    return Intention(
        dimension_columns=dimensions,
        partition_by=groups,
        conditions=wanted,
        output_columns=output,
        load=load,
        before={name: wanted.on(datasets[name].indexed) for name in load},
        after={
            name: wanted.on(datasets[name].columns - frozenset(datasets[name].partition_columns))
            for name in load
        },
        restricted=frozenset(
            name
            for name in load
            if name != cube.seed and (wanted.columns | {*groups}) & datasets[name].columns - own
        ),
    )


def conjunction(conditions: Conditions | str, schemas: Iterable[pa.Schema]) -> Conjunction:
    """Conditions in any form as one conjunction; `schemas` are those of the datasets."""
    if not isinstance(conditions, str):
        return Conjunction.of(conditions)
    fields = {field.name: field for schema in schemas for field in schema}
    return parse_conditions(conditions, pa.schema(list(fields.values())))


def _dimensions(cube: CubeColumns, given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return cube.dimension_columns
    names = _names(given, "dimension_columns")
    if not names:
        raise CubeError(
            f"dimension_columns is empty; name some of {', '.join(cube.dimension_columns)}, or leave it out"
        )
    strange = set(names) - set(cube.dimension_columns)
    if strange:
        raise CubeError(
            f"dimension_columns: {listed(strange)} spans no dimension of the cube; those are "
            f"{', '.join(cube.dimension_columns)}"
        )
    return names


def _groups(
    datasets: Mapping[str, CubeDataset], known: frozenset[str], given: str | Sequence[str] | None
) -> tuple[str, ...]:
    if given is None:
        return ()
    names = _names(given, "partition_by")
    _check_known("partition_by", names, known)
    indexed = frozenset().union(*(each.indexed for each in datasets.values()))
    plain = set(names) - indexed
    if plain:
        raise CubeError(
            f"partition_by: {listed(plain)} has no index; the indexed columns are {listed(indexed)}. Name it "
            "in index_columns and build the cube again"
        )
    return names


def _output(
    cube: CubeColumns,
    known: frozenset[str],
    columns: Iterable[str] | None,
    dimensions: Sequence[str],
    groups: Sequence[str],
) -> tuple[str, ...]:
    projected = set(cube.dimension_columns) - set(dimensions)
    if columns is None:
        payload = known - projected
    else:
        payload = frozenset(_names(columns, "columns"))
        _check_known("columns", payload, known)
    lost = projected & {*payload, *groups}
    if lost:
        raise CubeError(
            f"{listed(lost)} is asked for, but projected away: add it to dimension_columns, or leave it out "
            "of columns and partition_by"
        )
    return tuple(sorted({*payload, *groups, *dimensions, *cube.partition_columns}))


def _load(
    cube: CubeColumns,
    dataset: CubeDataset,
    output: Sequence[str],
    dimensions: Sequence[str],
    conditions: Conjunction,
) -> frozenset[str] | None:
    """The columns that are read of a dataset; None if the query needs none of it."""
    wanted = frozenset({*output, *dimensions, *conditions.columns}) - frozenset(cube.partition_columns)
    found = dataset.columns & wanted
    payload = cube.payload(found)
    if dataset.name != cube.seed and not payload:
        return None
    span = dataset.columns & frozenset(cube.dimension_columns)
    if payload and not span <= set(dimensions):
        raise CubeError(
            f"dataset {dataset.name!r} spans {', '.join(sorted(span))} and cannot be projected to "
            f"{', '.join(sorted(dimensions))} while its {listed(payload)} is kept: a cell there would have "
            "many values. Leave these columns out of columns, conditions and partition_by, or keep the "
            "dimensions"
        )
    return found


def _names(given: str | Iterable[str], what: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise CubeError(f"{what}: {strange[0]!r} is no column; columns are named by texts")
    if what != "columns":  # there, an order says nothing
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise CubeError(f"{what}: {listed(twice)} is named twice; name every column once")
    return names


def _check_known(what: str, names: Iterable[str], known: frozenset[str]) -> None:
    strange = set(names) - known
    if strange:
        raise CubeError(f"{what}: the cube has no column {listed(strange)}; it has {listed(known)}")
