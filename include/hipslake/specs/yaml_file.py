"""Spec files: each read into its model, and held against the other files of its deployment."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from hipslake.errors import SpecError
from hipslake.specs.base import NamedSpec
from hipslake.specs.compaction_spec import CompactionSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.plain_yaml import Document
from hipslake.specs.published_names import (
    check_catalog_name,
    check_materialised_name,
    check_table_place,
    find_specs,
)
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.yaml_model import load_yaml, text_of

Named = TypeVar("Named", bound=NamedSpec)


def load_spec(path: Path | str, model: type[Named]) -> Named:
    """Read a spec file `<name>.yaml`, whose key `name` must be the file's name.

    Parameters
    ----------
    path : Path or str
    model : type
        The kind of spec that the file holds.

    Raises
    ------
    SpecError
        One line `file:line: key: what is wrong; what would be right` for every mistake in the file; or the
        name of what it publishes is taken by another spec.
    """
    path = Path(path)
    for twin in find_specs(path.parent):
        if twin.stem == path.stem and twin != path:
            raise SpecError(f"{path}: {twin.name} beside it has the same name, and so has its DAG; keep one")
    spec, lines = load_yaml(path, model)
    if spec.name != path.stem:
        raise SpecError(
            f"{path}:{lines.get(('name',), 1)}: name: {spec.name!r} is not the file's name; "
            f"write 'name: {path.stem}' or rename the file to {spec.name}.yaml"
        )
    if isinstance(spec, CubeSpec):
        check_materialised_name(path, spec)
    elif isinstance(spec, TableSpec):
        check_table_place(path, spec)
    elif not isinstance(spec, CompactionSpec):
        check_catalog_name(path)
    return spec


def spec_type(path: Path) -> str | None:
    """The key `type` of a file in the folder of joins or of tables; None where it cannot be read.

    Each pipeline takes the files of its type; one also takes those of no type, and reports what is wrong.
    """
    try:
        data = Document(text_of(path)).value()
    except (OSError, ValueError, SpecError):
        return None
    found = data.get("type") if isinstance(data, dict) else None
    return found if isinstance(found, str) else None
