"""Which DAGs make a catalog, a table or a cube, and which keep it in shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from airflow.models.dag import DagModel
from sqlalchemy import false, or_, select
from sqlalchemy.orm import Session

MAKE_CATALOG = ("catalog_ingest", "catalog_adopt", "catalog_crossmatch", "catalog_equijoin")
KEEP_CATALOG = (
    "catalog_compact",
    "catalog_margin",
    "catalog_index",
    "catalog_delete",
    "catalog_reassign",
    "catalog_rollback",
    "catalog_vacuum",
    "catalog_verify",
    "catalog_repair",
    "catalog_hips",
)
MAKE_TABLE = ("iceberg_sink",)
MAKE_CUBE = ("cube_build", "cube_align")
KEEP_CUBE = ("cube_query", "cube_stats", "cube_cleanup", "cube_copy", "cube_remove_partitions", "cube_delete")
KEEP_TABLE = ("table_compact", "table_delete", "table_evolve", "table_vacuum")
EXPORT = "catalog_export"


_ALL = (*MAKE_CATALOG, *KEEP_CATALOG, *MAKE_TABLE, *KEEP_TABLE, *MAKE_CUBE, *KEEP_CUBE, EXPORT)
_FEW = 8  # names that a query asks for one by one


def in_chunks(names: Sequence[str], size: int = 500) -> Iterator[Sequence[str]]:
    """Names in lists that one query takes."""
    for first in range(0, len(names), size):
        yield names[first : first + size]


def parts(dag_id: str) -> tuple[str, str, str] | None:
    """The prefix, the pipeline, and the name of the spec in the id of a DAG; None where it is none of ours.

    Examples
    --------
    >>> parts("catalog_ingest__gaia_dr3")
    ('', 'catalog_ingest', 'gaia_dr3')
    >>> parts("survey.catalog_export")
    ('survey.', 'catalog_export', '')
    """
    head, _, name = dag_id.partition("__")
    pipeline = next((each for each in _ALL if head.endswith(each)), None)
    return None if pipeline is None else (head.removesuffix(pipeline), pipeline, name)


def pipeline_of(dag_id: str) -> str:
    """The pipeline in the id of a DAG of ours."""
    found = parts(dag_id)
    return "" if found is None else found[1]


def found(pipelines: Sequence[str], names: Iterable[str], session: Session) -> dict[str, tuple[str, ...]]:
    """The DAGs that Airflow has of some pipelines, with whatever prefix, by the name of their spec.

    Those of a name are in the order of the pipelines.
    """
    asked: dict[str, list[str]] = {name: [] for name in names}
    if len(asked) <= _FEW:
        tails = (DagModel.dag_id.endswith(f"{p}__{n}", autoescape=True) for p in pipelines for n in asked)
    else:
        tails = (DagModel.dag_id.contains(f"{pipeline}__", autoescape=True) for pipeline in pipelines)
    for dag_id in session.scalars(select(DagModel.dag_id).where(or_(false(), *tails))):
        told = parts(dag_id)
        if told is not None and told[1] in pipelines and told[2] in asked:
            asked[told[2]].append(dag_id)
    order = {pipeline: at for at, pipeline in enumerate(pipelines)}
    return {
        name: tuple(sorted(several, key=lambda dag_id: (order[pipeline_of(dag_id)], dag_id)))
        for name, several in asked.items()
    }


def form_beside(form: str, dag_ids: Iterable[str], session: Session) -> str | None:
    """The DAG of a form that has the prefix of one of some DAGs; None where Airflow has none.

    Parameters
    ----------
    form : str
        A pipeline whose DAG has a form and no spec, such as `catalog_export`.
    dag_ids : iterable of str
    session : Session
    """
    tail = DagModel.dag_id.endswith(form, autoescape=True)
    there = {
        told[0]: dag_id
        for dag_id in session.scalars(select(DagModel.dag_id).where(tail))
        if (told := parts(dag_id)) is not None and told[1:] == (form, "")
    }
    prefixes = [told[0] for dag_id in dag_ids if (told := parts(dag_id)) is not None]
    return next((there[prefix] for prefix in prefixes if prefix in there), there.get(""))


def all_owners(
    pipelines: tuple[str, ...], names: Iterable[str], session: Session
) -> dict[str, tuple[str, ...]]:
    """As `owners`, of many catalogs, tables or cubes by name."""
    return {
        name: several or (f"{pipelines[0]}__{name}",)
        for name, several in found(pipelines, names, session).items()
    }


def owners(pipelines: tuple[str, ...], name: str, session: Session) -> tuple[str, ...]:
    """The DAGs of a catalog, table or cube; a user who may read one of them may see it.

    Where Airflow has none of them (the spec was taken away, what it made still lies there), it is the id that
    the first pipeline would give, so that taking a spec away opens nothing.
    """
    return all_owners(pipelines, [name], session)[name]
