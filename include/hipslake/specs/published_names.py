"""Names of what specs publish: no two specs of a deployment publish into the same place.

Catalogs come of three folders of specs: `catalogs`, `joins`, and `cubes` whose joined rows become one. A cube
has the name of its file, so that a folder cannot hold two of one name; Iceberg tables may have several sinks,
but only through one Iceberg catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from hipslake.errors import SpecError
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.table_spec import TableSpec

CATALOGS, JOINS, CUBES, TABLES = "catalogs", "joins", "cubes", "tables"
"""The folders of specs, beside each other."""

_KEPT = 1000

Spec = TypeVar("Spec")
Load = Callable[[Path], "Spec | None"]
"""Reads a spec; None where it cannot be read, which its own DAG says."""


def find_specs(folder: Path | str) -> list[Path]:
    """Return the spec files of a folder, by name; hidden files are none."""
    paths = (path for ending in ("*.yaml", "*.yml") for path in Path(folder).glob(ending))
    return sorted(path for path in paths if not path.name.startswith((".", "_")))


def check_catalog_name(path: Path, load_cube: Load[CubeSpec]) -> None:
    """Refuse a catalog's or join's spec whose name that of another kind has, too.

    Parameters
    ----------
    path : Path
        Of the spec; it is looked at where it lies in one of the folders.
    load_cube : callable

    Raises
    ------
    SpecError
    """
    folder = path.parent.name
    if folder not in (CATALOGS, JOINS):
        return
    other = _file_of(path.parent.parent / (JOINS if folder == CATALOGS else CATALOGS), path.stem)
    if other is None:
        cubes = _materialised(path.parent.parent / CUBES, load_cube)
        other = next((cube for cube, name in cubes if name == path.stem), None)
    if other is not None:
        raise SpecError(f"{path}: {_shown(other)} publishes a catalog of the same name; rename one of them")


def check_materialised_name(path: Path, spec: CubeSpec, load_cube: Load[CubeSpec]) -> None:
    """Refuse a cube's spec whose joined rows would become the catalog of another spec.

    Parameters
    ----------
    path : Path
    spec : CubeSpec
        What it holds.
    load_cube : callable

    Raises
    ------
    SpecError
    """
    name = spec.materialise.name if spec.materialise is not None else None
    if name is None or path.parent.name != CUBES:
        return
    root = path.parent.parent
    other = _file_of(root / CATALOGS, name) or _file_of(root / JOINS, name)
    if other is None:
        cubes = _materialised(path.parent, load_cube)
        other = next((cube for cube, its in cubes if its == name and cube != path), None)
    if other is not None:
        raise SpecError(
            f"{path}: materialise.name: {_shown(other)} publishes the catalog {name!r} already; take another"
        )


def check_table_place(path: Path, spec: TableSpec, load_table: Load[TableSpec]) -> None:
    """Refuse a sink whose table would lie in the folder of a table of another SQL catalog.

    Parameters
    ----------
    path : Path
    spec : TableSpec
        What it holds.
    load_table : callable

    Raises
    ------
    SpecError
    """
    if path.parent.name != TABLES or spec.iceberg.type != "sql":
        return
    for other_path in find_specs(path.parent):
        other = load_table(other_path) if other_path != path else None
        if other is None or other.table != spec.table or other.iceberg.type != "sql":
            continue
        if other.iceberg.warehouse == spec.iceberg.warehouse and _catalog(other) != _catalog(spec):
            raise SpecError(
                f"{path}: {_shown(other_path)} feeds {spec.table} through another Iceberg catalog, whose "
                "table would lie in the same folder, where each takes the other's files for leftovers; give "
                "iceberg.warehouse, or the table another name"
            )


def remembering(load: Callable[[Path], Spec]) -> Load[Spec]:
    """A `Load` that reads a file once for as long as it stays as it is.

    Parameters
    ----------
    load : callable
        Reads a spec; raises `SpecError`.
    """

    @lru_cache(_KEPT)
    def read(path: Path, _stamp: tuple[int, int]) -> Spec | None:
        try:
            return load(path)
        except SpecError:
            return None

    def found(path: Path) -> Spec | None:
        try:
            status = path.stat()
        except OSError:
            return None
        return read(path, (status.st_mtime_ns, status.st_size))

    return found


def _file_of(folder: Path, name: str) -> Path | None:
    return next((path for path in find_specs(folder) if path.stem == name), None)


def _materialised(folder: Path, load_cube: Load[CubeSpec]) -> Iterator[tuple[Path, str]]:
    for path in find_specs(folder):
        cube = load_cube(path)
        if cube is not None and cube.materialise is not None and cube.materialise.name is not None:
            yield path, cube.materialise.name


def _catalog(spec: TableSpec) -> tuple[str, str | None, str | None]:
    return spec.iceberg.name, spec.iceberg.uri, spec.iceberg.connection


def _shown(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
