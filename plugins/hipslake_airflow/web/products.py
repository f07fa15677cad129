"""Tables and cubes of a warehouse, in few words. One that cannot be read says why; the others still show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

from hipslake.errors import HipslakeError, StoreTimeoutError
from hipslake.specs.base import Frozen
from hipslake.specs.spec_folder import SpecFolder
from hipslake.specs.table_spec import TableSpec
from hipslake.storage.folder import Storage

from hipslake_airflow.web.iceberg_access import iceberg_connection
from hipslake_airflow.web.shown import shown

CUBES = "cubes"


class Product(Frozen):
    """A table or a cube. What is not known is None."""

    name: str
    title: str  # as it is called where it stands
    description: str = ""
    version: str | None = None  # snapshot id of a table
    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    created: datetime | None = None  # of the newest version
    problem: str | None = None


def tables(folder: SpecFolder, warehouse: str) -> Iterator[Product]:
    """The tables that specs sink into.

    Parameters
    ----------
    folder : SpecFolder
    warehouse : str
    """
    silent: dict[str, str] = {}
    for path in folder.files(TableSpec):
        yield table_of(folder, path, warehouse, silent)


def table_of(folder: SpecFolder, path: Path, warehouse: str, silent: dict[str, str]) -> Product:
    """A table; catalogs that did not answer stand in `silent`, with why, and are not asked again."""
    from hipslake.tables.opening import open_table

    title = path.stem
    try:
        spec = folder.load(path, TableSpec)
        title = spec.table
        if (problem := silent.get(spec.place.model_dump_json())) is not None:
            return Product(name=path.stem, title=title, problem=problem)
        with (
            iceberg_connection(spec.iceberg),
            closing(open_table(spec.place, warehouse, spec.table)) as opened,
        ):
            table = opened.now()
    except HipslakeError as error:
        problem = f"{type(error).__name__}: {error}"
        if isinstance(error, StoreTimeoutError):
            silent[spec.place.model_dump_json()] = problem
        return Product(name=path.stem, title=title, problem=problem)
    if table is None:
        return Product(
            name=path.stem, title=title, description=spec.description, problem="nothing was sunk yet"
        )
    totals = table.totals
    return Product(
        name=path.stem,
        title=title,
        description=spec.description,
        version=None if table.version is None else str(table.version),
        rows=totals.rows,
        bytes=totals.bytes,
        files=totals.files,
        created=totals.created,
    )


def cubes(warehouse: str) -> Iterator[Product]:
    """The cubes of a warehouse."""
    storage = Storage.at(warehouse)
    for entry in storage.list(CUBES):
        if not entry.is_dir:
            continue
        yield cube_of(storage.uri(entry.path), shown(entry.path.rpartition("/")[2]))


def cube_of(uri: str, name: str) -> Product:
    """A cube; one that cannot be read says why."""
    from hipslake.api.cube import Cube

    try:
        metadata = Cube.open(uri).metadata
    except (HipslakeError, OSError, ValueError) as error:
        return Product(name=name, title=name, problem=shown(f"{type(error).__name__}: {error}"))
    seed = metadata.dataset(metadata.roles.seed)
    return Product(
        name=name,
        title=name,
        description=f"{', '.join(metadata.names)} on {', '.join(metadata.roles.partition_columns)}",
        version=str(metadata.version),
        rows=seed.rows,
        bytes=sum(each.bytes for each in metadata.datasets),
        files=sum(each.files for each in metadata.datasets),
        created=metadata.created,
    )
