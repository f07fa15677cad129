"""Rows are given to other objects: read from the newest version, changed in one column, and upserted again.

The changed rows are the files of a run of its own, below the folder of the run that reassigns. Its increment
counts as a correction (`hipslake.catalog.metadata.reassignments`): its records have the order of those that
they were read from. So everything else follows as it does of a night: rows go to the pixels of their new
objects, leaves are split, and margins, co-partition marks and column groups are those of the new version.

What was read is right for one version only, so a reassignment that was overtaken starts over.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hipslake.catalog.committing import committed_before, newest_version
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.published_spec import published_spec
from hipslake.errors import CatalogNotFoundError, ConflictError, InputError, SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.steps.append.request import AppendReport, AppendRequest
from hipslake.steps.attempt_places import REASSIGNMENTS
from hipslake.steps.attempts import attempts_below
from hipslake.steps.delete.request import MAX_FRACTION
from hipslake.steps.frozen_run import FrozenReassignment, FrozenRun
from hipslake.steps.ingest.frozen_objects import freeze_objects
from hipslake.steps.ingest.request import HistogramRequest, InputsRequest
from hipslake.steps.reassign.new_objects import NewObjects, ReassignedRows, changed_rows, object_column
from hipslake.steps.reassign.request import ReassignOutcome
from hipslake.steps.registry import STEPS
from hipslake.steps.rows_to_correct import RowsToCorrect
from hipslake.steps.run import RunFolder, Window, run_uri, warehouse_of
from hipslake.storage.backoff import wait_for_others
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from hipslake.versions.pins import pinning

log = logging.getLogger(__name__)

_ROWS = "rows"
"""The folder of the changed rows, in that of the run that upserts them."""
_GROUP_ROWS = 1 << 17


def reassign_rows(
    outer: FrozenRun,
    choice: RowsToCorrect,
    *,
    to: object = None,
    column: str | None = None,
    max_fraction: float = MAX_FRACTION,
    force: bool = False,
    tries: int = 30,
) -> tuple[CatalogMetadata, ReassignOutcome]:
    """Give rows of the newest version of a catalog to other objects.

    Parameters
    ----------
    outer : FrozenRun
        The run that reassigns; its catalog, and its folder.
    choice : RowsToCorrect
        If no object is given by `to`, its `keys` have a column of them.
    to : object, optional
        A value of the column: the object that all rows are given to.
    column : str, optional
        That names the object of a row; by default that of the spec's `position_from` or `co_partitioned`.
    max_fraction : float
        The largest part of the rows that may be chosen, from 0 to 1.
    force : bool
        Let any number be chosen.
    tries : int
        How often it starts over after others have committed.

    Returns
    -------
    metadata : CatalogMetadata
        The version that was committed; the newest one if there was nothing to do.
    outcome : ReassignOutcome

    Raises
    ------
    CatalogNotFoundError
        Nothing is published.
    SpecError
        The catalog is not of mode upsert, or keeps earlier rows; rows or objects are not given in exactly one
        way; the column cannot change; or more rows are chosen than may be.
    SchemaMismatchError, FilterError, RegionError, InputError
        As of `RowsToCorrect.find` and `NewObjects.of`; or there is no such object to place the rows by.
    VerificationError
        Rows of an object would lie in two pixels (`co_partitioned`).
    ConflictError
        Others kept committing.
    """
    catalog = Storage.at(outer.catalog_uri)
    for attempt in range(tries):
        if attempt:
            wait_for_others(attempt)
        with pinning(catalog) as pin:
            base = newest_version(catalog, pin)
            if base is None:
                raise CatalogNotFoundError(f"{catalog.uri()}: nothing is published; ingest the catalog first")
            spec = _reassignable(base)
            objects = NewObjects.of(base, object_column(base, spec, column), choice.keys, to)
            chosen = choice if to is not None else replace(choice, keys=objects.given)
            chosen.check()
            most = choice.purpose.limit(base.total_rows, max_fraction, force=force)
            found = chosen.find(catalog, base, most)
            changed = changed_rows(catalog, base, found, objects)
        told = {"missing_keys": found.missing_keys, "unchanged": changed.unchanged}
        if not changed.rows.num_rows:
            log.info("No row of %s, version %d, is to be reassigned.", base.catalog, base.version)
            return base, ReassignOutcome(total_rows=base.total_rows, **told)
        folder = _frozen(outer, base, spec, objects.column, chosen.text, changed)
        try:
            report = _upserted(folder)
        except ConflictError as error:
            log.info("The reassignment starts over: %s", error)
            continue
        finally:
            folder.storage.delete_tree(_ROWS)
        committed = CatalogMetadata.from_json(VersionLog(catalog).read(report.version))
        return committed, _outcome(report).model_copy(update=told)
    raise ConflictError(f"{catalog.uri()}: others changed the catalog {tries} times; try again later")


def run_of_program(uri: str, catalog: str) -> FrozenRun:
    """Begin a run that reassigns rows of a catalog, where no DAG has begun one.

    Parameters
    ----------
    uri : str
        Of the catalog's root.
    catalog : str
        Its name.

    Raises
    ------
    SpecError
        It lies in no warehouse.
    NotWritableError, NoSpaceError
        The warehouse cannot take another version.
    """
    warehouse, dag_id = warehouse_of(uri, catalog), f"catalog_reassign__{catalog}"
    run_id = f"program__{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    folder = RunFolder(run_uri(warehouse, dag_id, run_id))
    step = STEPS["resolve:published"]
    given = {"run_uri": folder.uri, "dag_id": dag_id, "run_id": run_id, "warehouse": warehouse}
    step.perform(step.request_model.model_validate({**given, "catalog": catalog}))
    return FrozenRun.of(folder)


def committed_reassignment(outer: FrozenRun) -> tuple[CatalogMetadata, ReassignOutcome] | None:
    """What an earlier attempt of a run has committed, which was killed before it could say so; or None."""
    storage, catalog = Storage.at(outer.run_uri), Storage.at(outer.catalog_uri)
    for write_id in attempts_below(storage, f"{REASSIGNMENTS}/{outer.write_id}"):
        committed = committed_before(catalog, [write_id])
        if committed is not None:
            made = [each for each in committed.reassignments or () if each.write_id == write_id]
            return committed, ReassignOutcome(
                version=committed.version,
                reassigned=sum(each.rows for each in made),
                total_rows=committed.total_rows,
            )
    return None


def forget_changed_rows(outer: FrozenRun) -> None:
    """Delete the changed rows that attempts of a run have left which were killed."""
    storage = Storage.at(outer.run_uri)
    for entry in storage.list(f"{REASSIGNMENTS}/{outer.write_id}"):
        storage.delete_tree(f"{entry.path}/{_ROWS}")


def _reassignable(base: CatalogMetadata) -> CatalogSpec:
    """The spec of a version whose rows can be given to other objects.

    Raises
    ------
    SpecError
        It is not one of mode upsert, or it keeps earlier rows.
    """
    version = f"catalog {base.catalog}, version {base.version}"
    if base.key_records is None or base.owners[0].kind != "catalog":
        raise SpecError(
            f"{version}, is not of mode upsert, so that the next night or run would bring rows back "
            "as they were; reassign them where they come from"
        )
    if base.key_records.validity is not None:
        raise SpecError(
            f"{version}, keeps earlier rows of its keys (validity); let a night bring the rows with "
            "their new object, which says from when on it was right"
        )
    return published_spec(base)


def _frozen(
    outer: FrozenRun,
    base: CatalogMetadata,
    spec: CatalogSpec,
    column: str,
    chosen: str,
    changed: ReassignedRows,
) -> RunFolder:
    """Freeze a run that upserts the changed rows, which lie in its folder as a Parquet file."""
    catalog = Storage.at(outer.catalog_uri)
    moment = datetime.now(UTC)
    while base.increment(moment.isoformat(), catalog) is not None:
        moment += timedelta(microseconds=1)
    uri = f"{outer.run_uri}/{REASSIGNMENTS}/{outer.write_id}/{moment:%Y%m%dT%H%M%S%f}"
    source = {"uri": f"{uri}/{_ROWS}/{{{{ start:%Y%m%dT%H%M%S }}}}/*", "format": "parquet"}
    plain = spec.model_dump(mode="json", by_alias=True)
    own: dict[str, Any] = {"source": source, "schedule": None, "newest": None, "operation": None}
    own["bad_rows"] = {"policy": "fail"}
    if spec.position_from is not None:
        own["position_from"] = {**plain["position_from"], "unmatched": "fail"}
    frozen = outer.model_copy(
        update={
            "run_uri": uri,
            "spec": CatalogSpec.model_validate({**plain, **own}),
            "owner": base.owners[0],
            "window": Window(start=moment, origin="params"),
            "objects": freeze_objects(spec, outer.warehouse),
            "reassigned": FrozenReassignment(
                version=base.version, column=column, chosen=chosen, nights=changed.nights
            ),
        }
    )
    folder = RunFolder(uri)
    sink = pa.BufferOutputStream()
    pq.write_table(changed.rows, sink, compression="zstd", row_group_size=_GROUP_ROWS)
    folder.storage.write(f"{_ROWS}/rows.parquet", sink.getvalue(), durable=False)
    folder.write(RunFolder.RUN, frozen)
    return folder


def _upserted(folder: RunFolder) -> AppendReport:
    """Upsert the changed rows.

    Raises
    ------
    InputError
        There is no object of some ids.
    ConflictError
        Another version has come, and has changed what they were read from.
    """

    def perform(name: str, **given: object) -> Any:
        step = STEPS[name]
        return step.perform(step.request_model.model_validate({"run_uri": folder.uri, **given}))

    perform(InputsRequest.step, files=(folder.uri_of(f"{_ROWS}/rows.parquet"),))
    try:
        perform(HistogramRequest.step)
    except InputError as error:  # of rows that the catalog has, only the object can be wrong
        shown = str(error).rpartition(": ")[2]
        raise InputError(
            f"rows cannot be given to objects that there are not: {shown}; nothing is changed. Ingest these "
            "objects first, or give others"
        ) from error
    report: AppendReport = perform(AppendRequest.step, merges=1)
    return report


def _outcome(report: AppendReport) -> ReassignOutcome:
    return ReassignOutcome(
        version=report.version,
        reassigned=report.rows_out,
        total_rows=report.total_rows,
        files=report.files,
        removed_files=report.removed_files,
        bytes=report.bytes,
    )
