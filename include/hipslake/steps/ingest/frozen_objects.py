"""The objects that a run places its rows by: which version of which catalog, and what was made of it."""

from __future__ import annotations

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.catalog.object_pixels import ObjectPixels
from hipslake.errors import CatalogNotFoundError, SpecError
from hipslake.joins.key_codes import KeyKind, key_kind
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.frozen_run import FrozenObjects, FrozenRun
from hipslake.steps.run import RunFolder, catalog_uri


class GatheredObjects(Frozen):
    """What lies in the run folder of the objects."""

    kind: KeyKind  # of their ids
    pieces: int
    objects: int
    objects_of: int  # of all that the version has; more where only those that are wanted were gathered


def freeze_objects(spec: CatalogSpec, warehouse: str) -> FrozenObjects | None:
    """The newest version of the catalog that the spec takes positions from; None if it takes none.

    Raises
    ------
    CatalogNotFoundError
        Nothing is published under its name.
    SchemaMismatchError, SpecError
        It has no such column, or one that is no id, or one that it does not mark as co-partitioned.
    """
    given = spec.position_from
    if given is None:
        return None
    where = f"position_from of {spec.name!r}"
    try:
        objects = CatalogReader.open(catalog_uri(warehouse, given.catalog))
    except CatalogNotFoundError as error:
        raise CatalogNotFoundError(f"{where}: {error}; ingest the objects first") from error
    metadata = objects.metadata
    if given.key not in objects.schema.names:
        raise SpecError(
            f"{where}: catalog {given.catalog!r} has no column {given.key!r}; its columns are "
            + ", ".join(sorted(objects.schema.names))
        )
    key_kind(objects.schema.field(given.key).type, f"{where}: column {given.key!r} of {given.catalog!r}")
    mark = metadata.mark_of(given.key)
    if mark is None or mark.objects is not None:
        raise SpecError(
            f"{where}: catalog {given.catalog!r} does not mark its column {given.key!r} as co-partitioned; "
            f"write 'co_partitioned: [{given.key}]' into its spec and ingest it again"
        )
    return FrozenObjects(
        catalog=metadata.catalog,
        uri=objects.uri,
        version=metadata.version,
        writes=metadata.increment_writes,
        moves=metadata.rows_move,
    )


def load_object_pixels(folder: RunFolder, run: FrozenRun) -> ObjectPixels | None:
    """The pixels of the objects, as the histogram step gathered them; None if it needs none."""
    if run.objects is None or not folder.storage.exists(RunFolder.OBJECTS):  # there was no row
        return None
    gathered = folder.read(RunFolder.OBJECTS, GatheredObjects)
    return ObjectPixels(folder.storage, gathered.kind, gathered.pieces)
