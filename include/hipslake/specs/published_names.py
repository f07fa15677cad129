"""Names of what specs publish: no two specs of a deployment publish into the same place.

Catalogs come of three folders of specs: `catalogs`, `joins`, and `cubes` whose joined rows become one. A cube
has the name of its file, so that a folder cannot hold two of one name; Iceberg tables may have several sinks,
but only through one Iceberg catalog.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from hipslake.errors import SpecError
from hipslake.specs.base import NamedSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.yaml_model import load_yaml

CATALOGS, JOINS, CUBES, TABLES = "catalogs", "joins", "cubes", "tables"
"""The folders of specs, beside each other."""

_KEPT = 1000

Named = TypeVar("Named", bound=NamedSpec)


def find_specs(folder: Path | str) -> list[Path]:
    """Return the spec files of a folder, by name; hidden files are none."""
    paths = (path for ending in ("*.yaml", "*.yml") for path in Path(folder).glob(ending))
    return sorted(path for path in paths if not path.name.startswith((".", "_")))


def check_catalog_name(path: Path) -> None:
    """Refuse a catalog's or join's spec whose name that of another kind has, too.

    Parameters
    ----------
    path : Path
        Of the spec; it is looked at where it lies in one of the folders.

    Raises
    ------
    SpecError
    """
    other = _publisher_of(path.stem, path) if path.parent.name in (CATALOGS, JOINS) else None
    if other is not None:
        raise SpecError(f"{path}: {_shown(other)} publishes a catalog of the same name; rename one of them")


def check_materialised_name(path: Path, spec: CubeSpec) -> None:
    """Refuse a cube's spec whose joined rows would become the catalog of another spec.

    Parameters
    ----------
    path : Path
    spec : CubeSpec
        What it holds.

    Raises
    ------
    SpecError
    """
    name = spec.materialise.name if spec.materialise is not None else None
    if name is None or path.parent.name != CUBES:
        return
    other = _publisher_of(name, path)
    if other is not None:
        raise SpecError(
            f"{path}: materialise.name: {_shown(other)} publishes the catalog {name!r} already; take another"
        )


def check_table_place(path: Path, spec: TableSpec) -> None:
    """Refuse a sink whose table would lie in the folder of a table of another SQL catalog.

    Parameters
    ----------
    path : Path
    spec : TableSpec
        What it holds.

    Raises
    ------
    SpecError
    """
    if path.parent.name != TABLES or spec.iceberg.type != "sql":
        return
    for other_path in find_specs(path.parent):
        other = _spec_of(other_path, TableSpec) if other_path != path else None
        if other is None or other.table != spec.table or other.iceberg.type != "sql":
            continue
        if other.iceberg.warehouse == spec.iceberg.warehouse and _catalog(other) != _catalog(spec):
            raise SpecError(
                f"{path}: {_shown(other_path)} feeds {spec.table} through another Iceberg catalog, whose "
                "table would lie in the same folder, where each takes the other's files for leftovers; give "
                "iceberg.warehouse, or the table another name"
            )


def _publisher_of(name: str, path: Path) -> Path | None:
    """The spec that publishes a catalog of a name, other than the one at `path`."""
    root = path.parent.parent
    for folder in (CATALOGS, JOINS):
        for other in find_specs(root / folder):
            if other.stem == name and other != path:
                return other
    for other in find_specs(root / CUBES):
        cube = _spec_of(other, CubeSpec)
        joined = cube.materialise if cube is not None else None
        if other != path and joined is not None and joined.name == name:
            return other
    return None


def _spec_of(path: Path, model: type[Named]) -> Named | None:
    """What a file holds, read once for as long as it stays as it is; None where its own DAG says why not."""
    try:
        status = path.stat()
    except OSError:
        return None
    return _read(path, model, (status.st_mtime_ns, status.st_size))


@lru_cache(_KEPT)
def _read(path: Path, model: type[Named], _stamp: tuple[int, int]) -> Named | None:
    try:
        return load_yaml(path, model)[0]
    except SpecError:
        return None


def _catalog(spec: TableSpec) -> tuple[str, str | None, str | None]:
    return spec.iceberg.name, spec.iceberg.uri, spec.iceberg.connection


def _shown(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
