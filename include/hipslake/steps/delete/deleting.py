"""Rows are deleted from the newest version of a catalog, by a commit of its own.

Rows are looked for first, and listed by `_healpix_29` and `_row`. Then the leaves that hold them are written
anew without them, in every column group, and margins follow as they do in an append. In mode upsert the
delete leaves a record of each key that says that it has no row (`hipslake.catalog.metadata.deletions`), and
the rows are set aside like all that a record has beaten.

What was found is right for one version only, so a delete whose version is overtaken starts over.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pyarrow.compute as pc

from hipslake.catalog.committing import commit_where_it_fits, newest_version
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.published_spec import published_spec
from hipslake.catalog.standing import Standing
from hipslake.engine.model import Engine
from hipslake.errors import (
    CatalogNotFoundError,
    ConflictError,
    SpecError,
    VersionNotFoundError,
)
from hipslake.library_version import __version__
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.delete.deletion_job import DeletedRows, DeletionJob
from hipslake.steps.delete.request import MAX_FRACTION, DeleteOutcome
from hipslake.steps.rows_to_correct import FoundRows, RowsToCorrect
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.folder import Storage
from hipslake.versions.ordinals import claim_ordinal
from hipslake.versions.pins import give_up
from hipslake.versions.version_write import writing

log = logging.getLogger(__name__)

_TASK_BYTES = 128 << 20


def delete_rows(
    catalog: Storage,
    choice: RowsToCorrect,
    engine: Engine,
    *,
    max_fraction: float = MAX_FRACTION,
    force: bool = False,
    tries: int = 30,
    task_bytes: int = _TASK_BYTES,
    library_version: str = __version__,
    began: Callable[[str], None] = lambda write_id: None,
) -> tuple[CatalogMetadata, DeleteOutcome]:
    """Delete rows of the newest version of a catalog.

    Parameters
    ----------
    catalog : Storage
        At the catalog's root.
    choice : RowsToCorrect
    engine : Engine
    max_fraction : float
        The largest part of the rows that may go, from 0 to 1.
    force : bool
        Let any number go.
    tries : int
        How often it starts over after others have committed.
    task_bytes : int
        Of leaf files that one task reads.
    library_version : str
    began : callable
        Is told the write id of every attempt, before anything can be committed under it.

    Returns
    -------
    metadata : CatalogMetadata
        The version that was committed; the newest one if there was no row to delete.
    outcome : DeleteOutcome

    Raises
    ------
    CatalogNotFoundError
        Nothing is published.
    SpecError
        The catalog is not one that nights append or upsert to, the rows are not chosen in exactly one way,
        or they are more than may go.
    SchemaMismatchError, FilterError, RegionError, InputError, IndexMissingError
        As of `RowsToCorrect.find`.
    ConflictError
        Others kept committing.
    """
    choice.check()
    ordinal: int | None = None
    for attempt in range(tries):
        if attempt:
            wait_for_others(attempt)
        base = newest_version(catalog)
        if base is None:
            raise CatalogNotFoundError(f"{catalog.uri()}: nothing is published; ingest the catalog first")
        spec = _deletable(base)
        with suppress(VersionNotFoundError):  # overtaken, and vacuumed before it was pinned
            with writing(catalog) as write:
                began(write.id)
                write.pin.hold(base.version)
                most = choice.purpose.limit(base.total_rows, max_fraction, force=force)
                found = choice.find(catalog, base, most)
                if found.rows.num_rows:
                    if ordinal is None or ordinal <= base.last_ordinal:
                        ordinal = _ordinal(catalog, base)
                    job = DeletionJob(catalog, base, spec, engine, write.id, ordinal)
                    made = job.make(found, choice.text, task_bytes)
                    draft = partial(made.next_version, catalog, spec, write.id, library_version)
                    if (committed := commit_where_it_fits(catalog, write, draft)) is not None:
                        return committed, _outcome(committed, made, found)
            give_up(catalog, write.id)
            if not found.rows.num_rows:
                log.info("No row of %s, version %d, is to be deleted.", base.catalog, base.version)
                return base, DeleteOutcome(missing_keys=found.missing_keys, total_rows=base.total_rows)
    raise ConflictError(f"{catalog.uri()}: others changed the catalog {tries} times; try again later")


def _deletable(base: CatalogMetadata) -> CatalogSpec:
    """The spec of a version that rows can be deleted from.

    Raises
    ------
    SpecError
        It is not one that nights come to.
    """
    owner = base.owners[0]
    if owner.kind != "catalog" or base.adopted is not None:
        made = "adopted from others" if base.adopted is not None else f"made by {owner}"
        raise SpecError(
            f"catalog {base.catalog} is {made}, so that deleted rows would come back with its next run; "
            "delete them where they come from"
        )
    spec, version = published_spec(base), f"catalog {base.catalog}, version {base.version}"
    if base.key_records is not None and base.key_records.validity is not None:
        raise SpecError(
            f"{version}, keeps earlier rows of its keys (validity); let a night delete keys by its "
            "operation, which says until when their rows were right"
        )
    if not (spec.mode.by_intervals and base.numbers_rows):
        raise SpecError(
            f"{version}, is of mode {spec.mode}, whose next run replaces "
            "all rows; ingest it without those that are to go, or write mode append or upsert into its spec "
            "and add a night"
        )
    return spec


def _ordinal(catalog: Storage, base: CatalogMetadata) -> int:
    return claim_ordinal(catalog, base.last_ordinal + 1, f"delete {secrets.token_hex(8)}")


def _outcome(committed: CatalogMetadata, made: DeletedRows, found: FoundRows) -> DeleteOutcome:
    changes = made.changes.values()
    return DeleteOutcome(
        version=committed.version,
        deleted=made.deletion.rows,
        missing_keys=found.missing_keys,
        total_rows=committed.total_rows,
        leaves=sum(len(Standing.of(change.removed).tree) for change in changes),
        files=sum(change.came.num_rows for change in changes),
        removed_files=sum(change.removed.num_rows for change in changes),
        bytes=sum(pc.sum(change.came["bytes"]).as_py() or 0 for change in changes),
    )
