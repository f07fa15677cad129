"""Which DAGs make a catalog, a table or a cube, and which keep it in shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from airflow.models.dag import DagModel
from sqlalchemy import select
from sqlalchemy.orm import Session

MAKE_CATALOG = ("catalog_ingest", "catalog_crossmatch", "catalog_equijoin")
KEEP_CATALOG = (
    "catalog_compact",
    "catalog_margin",
    "catalog_index",
    "catalog_rollback",
    "catalog_vacuum",
    "catalog_verify",
    "catalog_repair",
)
MAKE_TABLE = ("iceberg_sink",)
MAKE_CUBE = ("cube_build", "cube_align")
KEEP_CUBE = ("cube_query", "cube_stats", "cube_cleanup", "cube_copy", "cube_remove_partitions", "cube_delete")
KEEP_TABLE = ("table_compact", "table_vacuum")
EXPORT = "catalog_export"


def ids(pipelines: Iterable[str], name: str) -> tuple[str, ...]:
    """The ids that the DAGs of some pipelines have for a name.

    Examples
    --------
    >>> ids(MAKE_TABLE, "gaia_dr3")
    ('iceberg_sink__gaia_dr3',)
    """
    return tuple(f"{pipeline}__{name}" for pipeline in pipelines)


def in_chunks(names: Sequence[str], size: int = 500) -> Iterator[Sequence[str]]:
    """Names in lists that one query takes."""
    for first in range(0, len(names), size):
        yield names[first : first + size]


def known(dag_ids: Iterable[str], session: Session) -> tuple[str, ...]:
    """Those of some DAGs that Airflow has, in the order given."""
    asked = tuple(dag_ids)
    found: set[str] = set()
    for some in in_chunks(asked):
        found.update(session.scalars(select(DagModel.dag_id).where(DagModel.dag_id.in_(some))))
    return tuple(dag_id for dag_id in asked if dag_id in found)


def all_owners(
    pipelines: tuple[str, ...], names: Iterable[str], session: Session
) -> dict[str, tuple[str, ...]]:
    """As `owners`, of many catalogs, tables or cubes by name."""
    candidates = {name: ids(pipelines, name) for name in names}
    there = set(known([each for several in candidates.values() for each in several], session))
    return {
        name: tuple(each for each in several if each in there) or several[:1]
        for name, several in candidates.items()
    }


def owners(pipelines: tuple[str, ...], name: str, session: Session) -> tuple[str, ...]:
    """The DAGs of a catalog, table or cube; a user who may read one of them may see it.

    Where Airflow has none of them (the spec was taken away, what it made still lies there), it is the id that
    the first pipeline would give, so that taking a spec away opens nothing.
    """
    candidates = ids(pipelines, name)
    return known(candidates, session) or candidates[:1]
