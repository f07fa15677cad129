"""The spec files that the DAGs are made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

from hipslake.specs.base import NamedSpec
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.compaction_spec import COMPACTION, CompactionSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.environment import PROJECT_ROOT
from hipslake.specs.join_specs import CrossmatchSpec, EquijoinSpec
from hipslake.specs.published_names import CATALOGS, CUBES, JOINS, TABLES, find_specs
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.yaml_file import spec_type

_FOLDERS: dict[type[NamedSpec], str] = {
    CatalogSpec: CATALOGS,
    CrossmatchSpec: JOINS,
    EquijoinSpec: JOINS,
    TableSpec: TABLES,
    CompactionSpec: TABLES,
    CubeSpec: CUBES,
}


def specs_folder() -> Path:
    """Return the folder whose subfolders hold the specs: `HIPSLAKE_SPECS`, or that of the checkout."""
    return Path(os.environ.get("HIPSLAKE_SPECS") or PROJECT_ROOT / "include" / "specs")


def spec_files(model: type[NamedSpec], folder: Path | None = None) -> list[Path]:
    """Return the files that hold specs of a kind, by name.

    In a folder that holds several kinds, a file says its own by the key `type`. Files of tables that say
    none that is known are taken for specs of sinks, so that a DAG reports what is wrong with them.

    Parameters
    ----------
    model : type
        The kind of spec.
    folder : Path, optional
        The folder of all specs; by default `specs_folder()`.
    """
    paths = find_specs((folder or specs_folder()) / _FOLDERS[model])
    if model is TableSpec:
        return [path for path in paths if spec_type(path) != COMPACTION]
    if "type" not in model.model_fields:
        return paths
    kinds = get_args(model.model_fields["type"].annotation)
    return [path for path in paths if spec_type(path) in kinds]
