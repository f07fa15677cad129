"""The endpoint that tells what is made of what, by the specs: sources, catalogs, joins, tables and cubes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from fastapi import FastAPI, HTTPException, Query, status
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec
from hipslake.specs.spec_folder import CATALOGS, CUBES, JOINS, TABLES, SpecFolder
from hipslake.specs.table_rows import CatalogRowsSpec
from hipslake.specs.table_spec import TableSpec

from hipslake_airflow.web import pipelines
from hipslake_airflow.web.access import Reader, ReaderDep, queried
from hipslake_airflow.web.catalog_store import CatalogStore
from hipslake_airflow.web.known_specs import KnownSpecs
from hipslake_airflow.web.parameters import NAME_PATTERN
from hipslake_airflow.web.row_data import json_response
from hipslake_airflow.web.shown import shown
from hipslake_airflow.web.source_answer import shown_address
from hipslake_airflow.web.store import AskingDep

Kind = Literal["source", "catalog", "table", "cube"]
_DAGS = {
    "catalog": (*pipelines.MAKE_CATALOG, *pipelines.KEEP_CATALOG),
    "table": (*pipelines.MAKE_TABLE, *pipelines.KEEP_TABLE),
    "cube": (*pipelines.MAKE_CUBE, *pipelines.KEEP_CUBE),
}
_MAKES = {
    "catalog": pipelines.MAKE_CATALOG,
    "table": (*pipelines.MAKE_TABLE, *pipelines.KEEP_TABLE[:2]),
    "cube": pipelines.MAKE_CUBE,
}
_FOLDERS = {CATALOGS: "catalog", JOINS: "catalog", TABLES: "table", CUBES: "cube"}


class Edge(NamedTuple):
    """What is made of what, and how."""

    origin: str
    target: str
    what: str


class NodeDag(Frozen):
    """A DAG of a node."""

    does: str
    dag_id: str


class LineageNode(Frozen):
    """Something that is made, or that others are made of."""

    id: str
    kind: Kind
    name: str
    title: str
    dags: tuple[NodeDag, ...] = ()
    published: bool = False
    problem: str | None = None  # of its spec


def edges_of(folder: SpecFolder) -> Iterator[Edge]:
    """What specs make of what, by the names of nodes: `<kind>:<name>`."""
    sinks: dict[str, str] = {}
    for path, spec in folder.all_loaded():
        if isinstance(spec, CatalogSpec):
            yield Edge(f"source:{spec.source.uri}", f"catalog:{spec.name}", "ingest")
            if spec.position_from is not None:
                yield Edge(f"catalog:{spec.position_from.catalog}", f"catalog:{spec.name}", "places its rows")
        elif isinstance(spec, AdoptSpec):
            yield Edge(f"source:{spec.adopt.uri}", f"catalog:{spec.name}", "adopt")
        elif isinstance(spec, CrossmatchSpec | EquijoinSpec):
            for at, side in enumerate(spec.sides):
                told = f"{spec.type}, {'right' if at else 'left'}"
                yield Edge(_catalog(side.catalog), f"catalog:{spec.name}", told)
        elif isinstance(spec, TableSpec):
            sinks[spec.table] = f"table:{path.stem}"
            rows = spec.source
            found = (
                _catalog(rows.catalog) if isinstance(rows, CatalogRowsSpec) else f"source:{rows.files.uri}"
            )
            yield Edge(found, f"table:{path.stem}", f"sink into {spec.table}")
    for path, spec in folder.all_loaded():
        if isinstance(spec, CompactionSpec):
            origin = f"source:{spec.folder.uri}" if spec.folder is not None else f"source:{spec.table}"
            origin = sinks.get(spec.table or "", origin)
            yield Edge(origin, f"table:{path.stem}", "compaction")
        elif isinstance(spec, CubeSpec):
            for name, dataset in spec.datasets.items():
                if dataset.catalog is not None:
                    origin = _catalog(dataset.catalog)
                elif dataset.table is not None:
                    origin = sinks.get(dataset.table, f"source:{dataset.table}")
                else:
                    origin = f"source:{dataset.parquet}"
                yield Edge(origin, f"cube:{spec.name}", f"dataset {name}")
            if spec.materialise is not None and spec.materialise.name is not None:
                yield Edge(f"cube:{spec.name}", f"catalog:{spec.materialise.name}", "joined rows")


def connected(edges: list[Edge], of: str) -> set[str]:
    """The nodes that a node is made of, at any distance, and those that are made of it; with the node.

    Examples
    --------
    >>> edges = [Edge("a", "b", ""), Edge("b", "c", ""), Edge("x", "c", "")]
    >>> sorted(connected(edges, "b")), sorted(connected(edges, "c"))
    (['a', 'b', 'c'], ['a', 'b', 'c', 'x'])
    """
    found = {of}
    for here, there in ((0, 1), (1, 0)):
        waiting, seen = [of], {of}
        while waiting:
            node = waiting.pop()
            for edge in edges:
                if edge[here] == node and edge[there] not in seen:
                    seen.add(edge[there])
                    waiting.append(edge[there])
        found |= seen
    return found


def add_lineage(app: FastAPI, catalogs: CatalogStore, specs: KnownSpecs) -> None:
    """Add the endpoint to the app."""

    @app.get("/api/lineage")
    async def show_lineage(
        reader: ReaderDep,
        ask: AskingDep,
        of: Annotated[str | None, Query(pattern=NAME_PATTERN, max_length=120)] = None,
        kind: Literal["catalog", "table", "cube"] = "catalog",
    ) -> Response:
        folder, problems, there = await ask(
            lambda: (specs.folder(), specs.problems(), set(map(shown, catalogs.names())))
        )
        told = {f"{_FOLDERS[of]}:{name}": text for (of, name), text in problems.items()}
        edges = list(edges_of(folder))
        made = (
            {each for edge in edges for each in edge[:2]} | {f"catalog:{each}" for each in there} | set(told)
        )
        if of is not None:
            near = connected(edges, f"{kind}:{of}")
            edges = [edge for edge in edges if edge.origin in near and edge.target in near]
            names = near
        else:
            names = made
        nodes = await run_in_threadpool(_nodes, sorted(names), there, told, reader)
        known = {node.id for node in nodes}
        if of is not None and (f"{kind}:{of}" not in known or f"{kind}:{of}" not in made):
            raise HTTPException(status.HTTP_404_NOT_FOUND, f"there is no {kind} {of}")
        kept = [edge for edge in edges if edge.target in known]
        sources = {edge.origin for edge in kept if edge.origin.startswith("source:")}
        shown_nodes = [*nodes, *map(_source, sorted(sources))]
        return json_response(
            {
                "nodes": [node.model_dump() for node in shown_nodes],
                "edges": [
                    {"from": _shown_node(edge.origin), "to": edge.target, "what": edge.what}
                    for edge in kept
                    if edge.origin in known or edge.origin in sources
                ],
            }
        )


def _nodes(names: list[str], there: set[str], problems: dict[str, str], reader: Reader) -> list[LineageNode]:
    """The nodes that the reader may see: those of which they may read a DAG that makes them."""
    made = [tuple(name.split(":", 1)) for name in names if not name.startswith("source:")]
    found = []
    allowed: set[str] = set()
    owners: dict[str, tuple[str, ...]] = {}
    for kind, makes in _MAKES.items():
        its = [name for of, name in made if of == kind]
        for name, several in queried(pipelines.all_owners, makes, its).items():
            owners[f"{kind}:{name}"] = several
    allowed = reader.readable(dag_id for several in owners.values() for dag_id in several)
    seen = [(kind, name) for kind, name in made if not allowed.isdisjoint(owners[f"{kind}:{name}"])]
    all_dags = {
        f"{kind}:{name}": several
        for kind, made_by in _DAGS.items()
        for name, several in queried(
            pipelines.found, made_by, [name for of, name in seen if of == kind]
        ).items()
    }
    readable = reader.readable(sorted({each for several in all_dags.values() for each in several}))
    for kind, name in seen:
        node = f"{kind}:{name}"
        dags = [each for each in all_dags[node] if each in readable]
        found.append(
            LineageNode.model_validate(
                {
                    "id": node,
                    "kind": kind,
                    "name": name,
                    "title": name,
                    "dags": [{"does": pipelines.pipeline_of(each), "dag_id": each} for each in dags],
                    "published": kind == "catalog" and name in there,
                    "problem": problems.get(node),
                }
            )
        )
    return found


def _source(node: str) -> LineageNode:
    uri = shown_address(node.removeprefix("source:"))
    return LineageNode(id=_shown_node(node), kind="source", name=uri, title=uri.rpartition("/")[2] or uri)


def _shown_node(node: str) -> str:
    """The id of a node as answers have it: that of a source holds its address."""
    return shown_address(node) if node.startswith("source:") else node


def _catalog(given: str) -> str:
    """The node of a catalog that a spec names: of the warehouse by name, or one elsewhere by its URI."""
    return f"source:{given}" if "/" in given else f"catalog:{given}"
