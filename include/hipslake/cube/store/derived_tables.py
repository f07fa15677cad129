"""The alignment table and the joined rows, which a version keeps beside its datasets if a spec was followed.

The alignment table has a row per partition: the files and rows that each dataset has of it, and whether it is
joined. A file of joined rows belongs to one partition. Where the files that a partition is joined from are
those of the version before, its joined files stay: only partitions that were touched are joined again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hipslake.cube.dataset import labels_column
from hipslake.cube.query_plan import INCLUDED, QueryPlan, partition_pruning
from hipslake.cube.row_codes import matches, paired_codes, places_in
from hipslake.cube.store.cube_commit import Draft
from hipslake.cube.store.cube_files import (
    BYTES,
    PATH,
    ROWS,
    SHA256,
    encoded,
    files_schema,
    read_files,
    read_rows,
    read_table,
    write_table,
)
from hipslake.cube.store.cube_reader import CubeReader
from hipslake.cube.store.dataset_metadata import described
from hipslake.cube.store.layout import files_path, joined_path
from hipslake.cube.store.metadata import (
    CubeAlignment,
    CubeDatasetMetadata,
    CubeMetadata,
    CubeSource,
)
from hipslake.cube.store.query_tasks import Shares, joined_together, shares_for_cores
from hipslake.engine.model import Engine
from hipslake.errors import CubeError
from hipslake.specs.cube_spec import CubeSpec
from hipslake.sphere.pixels import HEALPIX_COLUMN
from hipslake.storage.folder import Storage

JOINED = "_joined"  # no dataset is called so


def is_aligned(spec: CubeSpec, base: CubeMetadata) -> bool:
    """Whether a version has the alignment table and the joined rows that a spec asks for."""
    if not set(spec.datasets) <= set(base.names):
        return True
    if base.alignment is None or base.alignment.conditions != (spec.conditions or ""):
        return False
    query = JoinedQuery.of(spec)
    return query is None or (
        base.joined is not None
        and base.joined.source is not None
        and base.joined.source.taken == query.digest
    )


def derive(
    now: CubeReader,
    write_id: str,
    spec: CubeSpec,
    draft: Draft,
    engine: Engine,
    *,
    before: CubeReader | None,
) -> Draft:
    """Write what follows from the datasets of a draft: the alignment table, and the joined rows.

    Parameters
    ----------
    now : CubeReader
        The version that is drafted; all its datasets are written.
    write_id : str
    spec : CubeSpec
        Says on which conditions partitions align, and whether joined rows are kept.
    draft : Draft
    engine : Engine
    before : CubeReader, optional
        The version before.
    """
    plan = now.plan(None, spec.conditions or "")
    files = {name: read_files(now.storage, now.metadata.dataset(name)) for name in plan.datasets}
    table = alignment_table(plan, files)
    included = pc.sum(pc.equal(table["fate"], INCLUDED)).as_py() or 0
    alignment = CubeAlignment(
        conditions=spec.conditions or "",
        table=write_table(now.storage, files_path(write_id, _ALIGNMENT), table),
        included=included,
        dropped=table.num_rows - included,
    )
    query = JoinedQuery.of(spec)
    joined = None if query is None else keep_joined(now, write_id, query, engine, before=before)
    return replace(draft, alignment=alignment, joined=joined)


@dataclass(frozen=True)
class JoinedQuery:
    """Which joined rows are kept.

    Attributes
    ----------
    columns : tuple of str, optional
        Payload; None: all.
    conditions : str
    left_out : frozenset of str
        Columns of the outcome that are not kept.
    file_rows : int
        The most rows of one file.
    """

    columns: tuple[str, ...] | None
    conditions: str
    left_out: frozenset[str]
    file_rows: int

    @classmethod
    def of(cls, spec: CubeSpec) -> JoinedQuery | None:
        """The joined rows that a spec asks for; None: it asks for none."""
        asked = spec.materialise
        if asked is None:
            return None
        # A catalog adds the index of a position itself, and every pixel follows from that.
        left_out = {HEALPIX_COLUMN, *spec.pixel_orders} if asked.name is not None else set()
        return cls(asked.columns, spec.conditions or "", frozenset(left_out), spec.file_rows)

    @property
    def digest(self) -> str:
        """A hash that is equal for equal queries only."""
        told = [self.columns, self.conditions, sorted(self.left_out), self.file_rows]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def planned(self, cube: CubeReader) -> QueryPlan:
        """Planned for a version of a cube."""
        return cube.plan(self.columns, self.conditions)


@dataclass(frozen=True)
class JoinTasks:
    """Tasks that join partitions and write what comes of them, some partitions each."""

    cube: Storage
    write_id: str
    plan: QueryPlan
    tasks: Shares
    query: JoinedQuery

    @property
    def schema(self) -> pa.Schema:
        """Of the rows that a task returns: the files that it wrote."""
        return files_schema(self.plan.datasets[self.plan.cube.seed].schema, self.plan.cube.partition_columns)

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        said: list[dict[str, Any]] = []
        for read in self.tasks[task]:
            rows = joined_together(self.cube, self.plan, [read]).drop_columns(sorted(self.query.left_out))
            for start in range(0, rows.num_rows, self.query.file_rows):
                piece = rows.slice(start, self.query.file_rows)
                data = encoded(piece)
                path = joined_path(self.write_id, task, len(said))
                self.cube.write(path, data)
                about = {ROWS: piece.num_rows, BYTES: data.size, SHA256: hashlib.sha256(data).hexdigest()}
                said.append({**read.values, PATH: path, **about})
        yield from pa.Table.from_pylist(said, self.schema).to_batches()


def keep_joined(
    now: CubeReader, write_id: str, query: JoinedQuery, engine: Engine, *, before: CubeReader | None = None
) -> CubeDatasetMetadata:
    """Join what a query includes, and keep the rows.

    Parameters
    ----------
    now : CubeReader
        The version that is drafted; all its datasets are written.
    write_id : str
    query : JoinedQuery
    engine : Engine
    before : CubeReader, optional
        The version before.
    """
    plan = query.planned(now)
    schema = pa.schema([field for field in plan.schema if field.name not in query.left_out])
    files, same = _kept(plan, query, schema, before)
    reads = [read for read, stays in zip(plan.reads(), same, strict=True) if not stays]
    tasks = shares_for_cores(plan, reads, engine.cores)
    work = JoinTasks(now.storage, write_id, plan.without_files(), tasks, query)
    if tasks:
        with engine.progress("join the cells"):
            made = engine.run(work, tasks=len(tasks), result=work.schema)
        files = made if files is None else pa.concat_tables([made, files.cast(work.schema)])
    files = work.schema.empty_table() if files is None else files
    content = hashlib.sha256("\n".join(sorted(files[PATH].to_pylist())).encode()).hexdigest()
    source = CubeSource(kind="query", uri=now.storage.uri(), content=content, taken=query.digest)
    cut = plan.cube.partition_columns
    return described(now.storage, write_id, JOINED, schema, cut, files, {}, source)


def _kept(
    plan: QueryPlan, query: JoinedQuery, schema: pa.Schema, before: CubeReader | None
) -> tuple[pa.Table | None, list[bool]]:
    """The joined files of the version before that stay, and which partitions of the plan have theirs."""
    none = [False] * plan.aligned.num_rows
    standing = None if before is None else before.metadata.joined
    if before is None or standing is None or standing.source is None:
        return None, none
    if standing.source.taken != query.digest or standing.to_arrow() != schema:
        return None, none
    same = pc.is_in(_labels(plan), value_set=_labels(query.planned(before)))
    files = read_files(before.storage, standing)
    cut = plan.cube.partition_columns
    found = places_in(*paired_codes(files, plan.aligned.filter(same), cut)) >= 0
    return files.filter(pa.array(found, pa.bool_())), same.to_pylist()


def _labels(plan: QueryPlan) -> pa.Array:
    """Per partition of a plan, all files that it is joined from, as one text; the seed's are of it alone."""
    columns = [plan.aligned.column(labels_column(name)) for name in sorted(plan.intention.load)]
    mark, texts = pa.scalar("|", pa.large_string()), []
    for column in columns:
        lists = column.combine_chunks().cast(pa.list_(pa.large_string()))
        texts.append(pc.fill_null(pc.binary_join(lists, mark), ""))
    return pc.binary_join_element_wise(*texts, mark)


_ALIGNMENT = "_alignment"  # no dataset is called so


def rows_column(dataset: str) -> str:
    """The column that says how many rows a dataset has for a partition.

    Examples
    --------
    >>> rows_column("seed")
    '__rows_seed'
    """
    return f"__rows_{dataset}"


def alignment_table(plan: QueryPlan, files: Mapping[str, pa.Table]) -> pa.Table:
    """How the datasets of a planned query align.

    Parameters
    ----------
    plan : QueryPlan
    files : mapping of str to pyarrow.Table
        Per dataset, the table of its files.

    Returns
    -------
    pyarrow.Table
        One row per partition of any dataset that is cut by all partition columns: the partition columns,
        `datasets`, `fate` (`included`, or why it was dropped), and for each dataset `__cube_labels_<name>`,
        the files that belong to it, and `__rows_<name>`, their rows.
    """
    table = partition_pruning(plan)
    for name in [plan.cube.seed, *plan.others]:
        cut = plan.datasets[name].partition_columns
        partition, file = matches(*paired_codes(table, files[name], cut))
        bounds = np.searchsorted(partition, np.arange(table.num_rows + 1)).astype(np.int32)
        met = files[name].select([PATH, ROWS]).take(pa.array(file))
        labels = pa.ListArray.from_arrays(pa.array(bounds), met[PATH].combine_chunks())
        total = np.append(0, np.cumsum(met[ROWS].to_numpy()))
        table = table.append_column(labels_column(name), labels)
        table = table.append_column(rows_column(name), pa.array(total[bounds[1:]] - total[bounds[:-1]]))
    return table


def read_alignment(cube: Storage, metadata: CubeMetadata) -> pa.Table:
    """The alignment table of a version.

    Raises
    ------
    CubeError
        It has none, as no spec was followed when it was made.
    CatalogFormatError
        It is damaged.
    """
    if metadata.alignment is None:
        raise CubeError(
            f"{cube.uri()}: version {metadata.version} came of {metadata.operation!r} and has no alignment "
            "table; run the DAG that aligns the cube, or call `Cube.pruning`"
        )
    return read_table(cube, metadata.alignment.table)


def counted_fates(table: pa.Table) -> dict[str, int]:
    """How many partitions have each fate, the most frequent first."""
    counts = table.group_by("fate", use_threads=False).aggregate([([], "count_all")])
    pairs = zip(counts["fate"].to_pylist(), counts["count_all"].to_pylist(), strict=True)
    return dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))


def read_joined(cube: Storage, metadata: CubeMetadata, columns: Sequence[str] | None = None) -> pa.Table:
    """The joined rows of a version, partition by partition.

    Raises
    ------
    CubeError
        They were not kept.
    VerificationError
        A file is missing or damaged.
    """
    if metadata.joined is None:
        raise CubeError(f"{cube.uri()}: version {metadata.version} keeps no joined rows; query the cube")
    schema = metadata.joined.to_arrow()
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    return read_rows(cube, read_files(cube, metadata.joined)[PATH].to_pylist(), wanted)
