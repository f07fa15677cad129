"""What the endpoints of the page answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hipslake.catalog.comparing import IncrementSummary
from hipslake.catalog.foreign.foreign_metadata import ForeignMetadata
from hipslake.catalog.metadata import CatalogMetadata, Increment
from hipslake.catalog.partitions import count_pixels
from hipslake.specs.base import Frozen

from hipslake_airflow.web.lines import Line
from hipslake_airflow.web.products import Product
from hipslake_airflow.web.runs import FailedRun, RunSummary
from hipslake_airflow.web.source_answer import Relation, SourceAnswer


class Listed(Frozen):
    """A catalog in the list of all."""

    name: str
    description: str = ""
    version: int | None = None
    rows: int | None = None
    bytes: int | None = None
    partitions: int | None = None
    layout: str | None = None
    created: datetime | None = None
    last_run: RunSummary | None = None
    last_failed: FailedRun | None = None  # the newest that nothing made good for since
    problem: str | None = None
    spec_problem: str | None = None  # file, line, key, and what would be right
    nights: int | None = None  # increments, of a catalog that grows
    kind: str = "catalog"  # or join, or cube: what publishes it
    relation: Relation | None = None  # to a catalog of others: adopted, or read where it lies


class ListedProduct(Product):
    """A table or a cube in the list of all."""

    last_run: RunSummary | None = None
    last_failed: FailedRun | None = None
    spec_problem: str | None = None


class ColumnAnswer(Frozen):
    """A column."""

    name: str
    type: str
    unit: str | None
    description: str | None


class GroupAnswer(Frozen):
    """A column group."""

    name: str
    rows: int
    bytes: int
    leaves: int
    files: int
    threshold: str
    columns: tuple[ColumnAnswer, ...]
    leaves_per_order: dict[int, int]


class MarginAnswer(Frozen):
    """A margin."""

    name: str
    radius_arcsec: float
    rows: int
    bytes: int
    files: int


class CatalogAnswer(Frozen):
    """A version of a catalog."""

    name: str
    uri: str
    description: str
    attribution: str
    version: int
    newest: int
    created: datetime | None  # None: others do not say it
    layout: str
    rows: int
    bytes: int
    rows_read: int
    rows_rejected: int
    rows_superseded: int
    rows_near_borders: int | None  # of a match without a margin: left rows that may lack partners
    groups: tuple[GroupAnswer, ...]
    margins: tuple[MarginAnswer, ...]
    increments: tuple[IncrementSummary, ...]  # the newest ones
    increments_in_all: int
    co_partitioned: tuple[str, ...]
    indices: tuple[str, ...]
    lines: tuple[Line, ...]
    dags: dict[str, str]  # from what is done to the DAG that does it
    last_runs: tuple[RunSummary, ...]
    last_failed: FailedRun | None
    spec_problem: str | None
    source: SourceAnswer | None = None  # the catalog of others that it stands for


MOST_INCREMENTS = 50


def catalog_answer(
    name: str,
    uri: str,
    metadata: CatalogMetadata,
    increments: Sequence[Increment],
    newest: int,
    lines: tuple[Line, ...],
    dags: dict[str, str],
    last_runs: tuple[RunSummary, ...],
    last_failed: FailedRun | None,
    spec_problem: str | None,
    source: SourceAnswer | None,
) -> CatalogAnswer:
    """What there is to say of a version; parameters as the fields of the answer."""
    return CatalogAnswer(
        name=name,
        uri=uri,
        description=metadata.description,
        attribution=metadata.attribution,
        version=metadata.version,
        newest=newest,
        created=created_at(metadata),
        layout=metadata.layout.value,
        rows=metadata.total_rows,
        bytes=metadata.total_bytes,
        rows_read=metadata.rows_read,
        rows_rejected=metadata.rows_rejected,
        rows_superseded=metadata.rows_superseded,
        rows_near_borders=metadata.rows_near_borders,
        groups=tuple(_group(metadata, at) for at in range(len(metadata.groups))),
        margins=tuple(
            MarginAnswer.model_validate(
                {field: getattr(margin, field) for field in MarginAnswer.model_fields}
            )
            for margin in metadata.margins
        ),
        increments=tuple(map(IncrementSummary.of, increments[::-1][:MOST_INCREMENTS])),
        increments_in_all=len(increments),
        co_partitioned=tuple(mark.column for mark in metadata.co_partitioned),
        indices=metadata.indexed_columns,
        lines=lines,
        dags=dags,
        last_runs=last_runs,
        last_failed=last_failed,
        spec_problem=spec_problem,
        source=source,
    )


def created_at(metadata: CatalogMetadata) -> datetime | None:
    """When a version was made; None where others do not say it."""
    return metadata.made if isinstance(metadata, ForeignMetadata) else metadata.created


def _group(metadata: CatalogMetadata, at: int) -> GroupAnswer:
    group = metadata.groups[at]
    return GroupAnswer(
        name=group.name,
        rows=group.rows,
        bytes=group.bytes,
        leaves=group.leaves,
        files=group.files,
        threshold=str(group.threshold),
        columns=tuple(
            ColumnAnswer(name=c.name, type=c.type, unit=c.unit, description=c.description)
            for c in group.columns
        ),
        leaves_per_order={order: count_pixels(order, text) for order, text in group.pixels.items()},
    )
