"""The DAGs of the specs and the assets that connect them.

What starts a DAG is its schedule, what it publishes are the outlets of its tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG

_HAND = ("delete", "rollback", "margin", "index", "build")
"""Pipelines that somebody starts by hand on what is published already: in the table, not in the picture."""


@dataclass(frozen=True)
class Link:
    """A DAG, the assets whose events start it, and those whose events it emits; all by name, sorted."""

    dag_id: str
    follows: tuple[str, ...]
    emits: tuple[str, ...]

    @property
    def pipeline(self) -> str:
        """The DAG's pipeline, `catalog_ingest` of `catalog_ingest__gaia_dr3`."""
        return self.dag_id.split("__")[0]

    @property
    def name(self) -> str:
        """The name of its spec."""
        return self.dag_id.split("__", 1)[1]


def links(specs: Path) -> list[Link]:
    """Return the DAGs of a folder of specs that follow or emit an asset, by id.

    Raises
    ------
    SpecError
        A spec cannot be read.
    """
    from hipslake_airflow import check_specs, spec_dags  # slow to import

    check_specs(specs)
    found = (Link(dag_id, _follows(dag), _emits(dag)) for dag_id, dag in sorted(spec_dags(specs).items()))
    return [link for link in found if link.follows or link.emits]


def chain_part(specs: Path) -> str:
    """Return the picture of the chain of a folder of specs, and the table of its assets, as Markdown."""
    chain = links(specs)
    return f"{mermaid(chain)}\n\n{table(chain)}"


def mermaid(chain: Iterable[Link]) -> str:
    """Return the flow of DAGs (boxes) and assets (drums) as a mermaid block.

    DAGs that only look after something published, when somebody starts them, are left out.
    """
    drawn = [link for link in chain if not link.pipeline.endswith(_HAND)]
    lines = ["```mermaid", "flowchart LR"]
    lines += [f'  {link.dag_id}["{link.pipeline}<br/><b>{link.name}</b>"]' for link in drawn]
    assets = sorted({name for link in drawn for name in (*link.follows, *link.emits)})
    lines += [f'  {_id(name)}[("{name}")]' for name in assets]
    for link in drawn:
        lines += [f"  {_id(name)} --> {link.dag_id}" for name in link.follows]
        lines += [f"  {link.dag_id} -.-> {_id(name)}" for name in link.emits]
    lines += ["  classDef asset fill:#dbe7f3,stroke:#4a6f96,color:#222"]
    lines += [f"  class {','.join(map(_id, assets))} asset", "```"]
    return "\n".join(lines)


def table(chain: Iterable[Link]) -> str:
    """Return a Markdown table with a row for each asset: DAGs that emit its events, DAGs that these start."""
    chain = list(chain)
    lines = ["| asset | its events come from | and start |", "|---|---|---|"]
    for name in sorted({name for link in chain for name in (*link.follows, *link.emits)}):
        emitted = ", ".join(f"`{link.dag_id}`" for link in chain if name in link.emits)
        started = ", ".join(f"`{link.dag_id}`" for link in chain if name in link.follows)
        lines.append(f"| `{name}` | {emitted} | {started} |")
    return "\n".join(lines)


def _follows(dag: DAG) -> tuple[str, ...]:
    condition: Any = getattr(dag.timetable, "asset_condition", None)  # an AssetAny: see `schedules`
    return tuple(sorted(asset.name for asset in condition.objects)) if condition else ()


def _emits(dag: DAG) -> tuple[str, ...]:
    outlets = (outlet for task in dag.tasks for outlet in task.outlets)
    return tuple(sorted({outlet.name for outlet in outlets if getattr(outlet, "uri", None)}))


def _id(asset: str) -> str:
    return asset.replace("/", "_")
