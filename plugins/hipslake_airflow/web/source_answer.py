"""What the page tells of the catalog of others that a catalog stands for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from hipslake.catalog.metadata import CatalogMetadata
from hipslake.specs.base import Frozen
from hipslake.specs.secrets import secrets_of, without
from sqlalchemy.orm import Session

from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import Reader, queried
from hipslake_airflow.web.others import OpenedCatalog
from hipslake_airflow.web.runs import last_good_runs
from hipslake_airflow.web.shown import shown

Relation = Literal["adopted", "read"]
ADOPT = "catalog_adopt"


class SourceAnswer(Frozen):
    """The catalog of others that a version was made of, or that is read where it lies."""

    relation: Relation  # adopted: versions of ours stand for it; read: it has none
    uri: str
    copied: bool = False  # whether the leaves of the version are copies in the warehouse
    name: str  # what it is called there
    builder: str = ""  # the software that wrote it, as it says
    made: datetime | None = None  # when it was written, as it says
    state: str  # digest of what names its leaves: of which state of it the version is
    looked_at: datetime | None = None  # when it was last asked for, and did answer
    properties: dict[str, str] = {}  # noqa: RUF012 - what it says of itself; none of one that was adopted


def relation_of(metadata: CatalogMetadata) -> Relation | None:
    """How a catalog stands to one of others; None if it does not."""
    if metadata.is_foreign:
        return "read"
    return None if metadata.adopted is None else "adopted"


def shown_address(uri: str) -> str:
    """An address as the page shows it: without passwords, tokens and signatures.

    Examples
    --------
    >>> shown_address("https://me:pass@host/gaia?sig=abcdef")
    'https://***@host/gaia?sig=***'
    """
    return without(shown(uri), secrets_of({"uri": shown(uri)}))


def adopted_source(metadata: CatalogMetadata, looked_at: datetime | None) -> SourceAnswer | None:
    """What a version says of the catalog that it adopted; None where it adopted none."""
    adopted = metadata.adopted
    if adopted is None:
        return None
    return SourceAnswer(
        relation="adopted",
        uri=shown_address(adopted.uri),
        copied=adopted.copied,
        name=adopted.name,
        builder=adopted.builder,
        made=adopted.made,
        state=adopted.state,
        looked_at=looked_at,
    )


def read_source(opened: OpenedCatalog) -> SourceAnswer:
    """What a catalog of others says of itself."""
    metadata = opened.metadata
    said = metadata.tree.properties
    return SourceAnswer(
        relation="read",
        uri=shown_address(opened.reader.opened_at),
        name=metadata.catalog,
        builder=said.get("hats_builder", ""),
        made=metadata.made,
        state=metadata.write_id,
        looked_at=opened.looked_at,
        properties={key: shown_address(text) for key, text in said.items()},
    )


def last_look(dag_ids: Iterable[str], reader: Reader) -> datetime | None:
    """When a DAG that adopts last looked at its source with success, as far as the reader may see runs."""
    ids = [each for each in dag_ids if pipelines.pipeline_of(each) == ADOPT and reader.may_read_runs(each)]

    def query(session: Session) -> list[datetime]:
        return [run.start for run in last_good_runs(ids, session).values() if run.start is not None]

    return max(queried(query), default=None) if ids else None
