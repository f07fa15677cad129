"""What the UI shows about a DAG: the Markdown of its pipeline, `doc_md/<pipeline>.md`, a Jinja template."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.join_specs import SideSpec
from hipslake.specs.margin_spec import distances_text
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hipslake_airflow.schedules import when


def document(pipeline: str, **facts: Any) -> str:
    """Return the Markdown about a DAG.

    Parameters
    ----------
    pipeline : str
        The DAG's pipeline, such as `catalog_ingest`.
    **facts
        What its template asks for: mostly `spec` and `path`, a model and its file.
    """
    return _TEMPLATES.get_template(f"{pipeline}.md").render(facts)


def _quoted(names: Iterable[object]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _one_line(condition: str) -> str:
    """A filter or condition as it can stand in a table of Markdown."""
    return " ".join(condition.split()).replace("|", "\\|")


def _filtered(side: SideSpec) -> str:
    """Which rows of a catalog take part, if not all do."""
    return f", rows with `{_one_line(side.filters)}`" if side.filters is not None else ""


def _new_versions(catalogs: tuple[str, ...]) -> str:
    return f"each new version of {' or '.join(f'`{name}`' for name in catalogs)}" if catalogs else ""


def _partitions(spec: CubeSpec) -> str:
    """The partition columns of a cube, its pixels with their orders last."""
    orders = [f"`{name}` (order {order})" for name, order in spec.pixel_orders.items()]
    cut = [f"`{name}`" for name in spec.partition_columns if name not in spec.pixel_orders]
    return ", ".join([*cut, *orders])


_TEMPLATES = Environment(  # Markdown, which is not escaped as HTML is
    loader=FileSystemLoader(Path(__file__).with_name("doc_md")),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.globals |= {"when": when, "distances_text": distances_text}
_TEMPLATES.filters |= {
    "filtered": _filtered,
    "new_versions": _new_versions,
    "one_line": _one_line,
    "partitions": _partitions,
    "quoted": _quoted,
}
