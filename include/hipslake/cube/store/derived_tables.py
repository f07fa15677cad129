"""The joined rows of a cube, kept as Parquet beside its datasets.

A file belongs to one partition. Where the files that a partition is joined from are those of the version
before, its joined files stay: so only partitions that were touched are joined again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hipslake.api.cube import Cube
from hipslake.cube.dataset import labels_column
from hipslake.cube.query_plan import QueryPlan
from hipslake.cube.row_codes import paired_codes, places_in
from hipslake.cube.store.cube_files import ABOUT_FILES, PATH, encoded, read_files
from hipslake.cube.store.dataset_metadata import described
from hipslake.cube.store.layout import joined_path
from hipslake.cube.store.metadata import CubeDatasetMetadata, CubeSource
from hipslake.cube.store.query_tasks import Shares, joined_together, shares_for_cores
from hipslake.engine.model import Engine
from hipslake.storage.folder import Storage

JOINED = "_joined"  # no dataset is called so


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

    @property
    def digest(self) -> str:
        """What tells it from other queries."""
        told = [self.columns, self.conditions, sorted(self.left_out), self.file_rows]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def planned(self, cube: Cube) -> QueryPlan:
        """Planned for a version of a cube."""
        return cube.plan(self.columns, self.conditions)


@dataclass(frozen=True)
class JoinTasks:
    """Tasks that join partitions and write what comes of them, some partitions each."""

    cube: Storage
    write_id: str
    plan: QueryPlan
    tasks: Shares
    left_out: frozenset[str]
    file_rows: int

    @property
    def schema(self) -> pa.Schema:
        """Of what a task says: the files that it wrote."""
        seed = self.plan.datasets[self.plan.cube.seed].schema
        return pa.schema([*(seed.field(name) for name in self.plan.cube.partition_columns), *ABOUT_FILES])

    def __call__(self, task: int) -> Iterator[pa.RecordBatch]:
        said: list[dict[str, Any]] = []
        for read in self.tasks[task]:
            rows = joined_together(self.cube, self.plan, [read]).drop_columns(sorted(self.left_out))
            for start in range(0, rows.num_rows, self.file_rows):
                data = encoded(rows.slice(start, self.file_rows))
                path = joined_path(self.write_id, task, len(said))
                self.cube.write(path, data)
                about = [path, min(self.file_rows, rows.num_rows - start), data.size]
                about.append(hashlib.sha256(data).hexdigest())
                said.append({**read.values, **dict(zip((f.name for f in ABOUT_FILES), about, strict=True))})
        yield from pa.Table.from_pylist(said, self.schema).to_batches()


def keep_joined(
    now: Cube, write_id: str, query: JoinedQuery, engine: Engine, *, before: Cube | None = None
) -> CubeDatasetMetadata:
    """Join what a query includes, and keep the rows.

    Parameters
    ----------
    now : Cube
        The version that is drafted; all its datasets are written.
    write_id : str
    query : JoinedQuery
    engine : Engine
    before : Cube, optional
        The version before.
    """
    plan = query.planned(now)
    schema = pa.schema([field for field in plan.schema if field.name not in query.left_out])
    files, same = _kept(plan, query, schema, before)
    reads = [read for read, stays in zip(plan.reads(), same, strict=True) if not stays]
    tasks = shares_for_cores(plan, reads, engine.cores)
    work = JoinTasks(now.storage, write_id, plan.without_files(), tasks, query.left_out, query.file_rows)
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
    plan: QueryPlan, query: JoinedQuery, schema: pa.Schema, before: Cube | None
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
