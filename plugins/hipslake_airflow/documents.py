"""What the UI shows about a catalog's DAG."""

from __future__ import annotations

from pathlib import Path

from hipslake.specs.catalog import CatalogSpec


def ingest_document(spec: CatalogSpec, path: Path) -> str:
    """Return the page of a catalog's ingest DAG, in Markdown."""
    groups = "\n".join(
        f"| `{group.name}` | {'all other columns' if group.columns == '*' else ', '.join(group.columns)} "
        f"| {spec.threshold_of(group.name)} |"
        for group in spec.column_groups
    )
    position = spec.position
    epoch = f", epoch J{position.epoch}" if position.epoch is not None else ""
    return f"""### {spec.name}

{spec.description}

{spec.attribution}

| | |
|---|---|
| spec | `{path}` |
| source | `{spec.source.uri}` ({spec.source.format}) |
| position | `{position.ra}`, `{position.dec}` ({position.unit}, {position.frame}{epoch}) |
| layout | {spec.layout.value}, orders {spec.lowest_order} to {spec.highest_order} |
| rows not on the sky | {spec.bad_rows.policy} |

| column group | columns | threshold |
|---|---|---|
{groups}

`resolve` freezes the spec, the params and the window of the run. `wait` waits for the files, `inputs` lists
them and skips the run if nothing changed since the newest version. `histogram` counts rows per pixel, `plan`
splits the sky into leaves, `write` writes them, `verify` reads everything back, `publish` commits the version
and emits the catalog's asset, `view` shows the version to HATS readers. No reader sees anything before.
"""
