"""Requests to change a table that fail, and take effect at any time; and what must hold of the table then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import (
    HipslakeError,
    NotWritableError,
    SpecError,
    StorageError,
)
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.tables.catalogs import open_catalog
from hipslake.tables.vacuum import TableVacuumOutcome, vacuum_table
from hipslake.tables.writes import sweep_writes
from pyiceberg import exceptions
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table
from sqlalchemy.exc import OperationalError

from tests.tables.sinking import Lake, utc

NEVER, AFTER_ALL = 0, 99
REAL = SqlCatalog.commit_table
Fault = Callable[[SqlCatalog, tuple[Any, ...]], Any]


UNKNOWN = [
    CommitStateUnknownException("502"),
    exceptions.ServiceUnavailableError("503"),
    exceptions.ServerError("507"),
    exceptions.TooManyRequestsError("429"),
    exceptions.BadRequestError("400"),
    exceptions.RESTError("422"),
    ConnectionResetError("reset"),
]
REFUSED: list[tuple[Exception, type[HipslakeError], str]] = [
    (exceptions.UnauthorizedError("401"), StorageError, "renew its token or credential"),
    (exceptions.AuthorizationExpiredError("419"), StorageError, "renew its token or credential"),
    (exceptions.ForbiddenError("403"), NotWritableError, "grant the right to write the table"),
    (exceptions.NoSuchTableError("404"), SpecError, "has no table 'survey.sample' any more"),
    (NotImplementedError("501"), SpecError, "does not offer commits"),
]


def failing(*faults: Fault) -> None:
    """Let the first requests from now on fail, each as its fault says."""
    left = list(faults)

    def commit_table(self: SqlCatalog, *given: Any) -> Any:
        return left.pop(0)(self, given) if left else REAL(self, *given)

    SqlCatalog.commit_table = commit_table  # type: ignore[method-assign]


def raising(error: Exception, *, taken: bool = False) -> Fault:
    def fault(catalog: SqlCatalog, given: tuple[Any, ...]) -> None:
        if taken:
            REAL(catalog, *given)
        raise error

    return fault


def held_up(error: Exception, into: list[Callable[[], object]]) -> Fault:
    def fault(catalog: SqlCatalog, given: tuple[Any, ...]) -> None:
        into.append(lambda: REAL(catalog, *given))
        raise error

    return fault


class LostConnections:
    """A catalog whose connection is lost in each of the first requests; each takes effect at its time.

    Parameters
    ----------
    times : tuple of int
        Of each of them: before which request it takes effect (its own number: at once).
    """

    def __init__(self, *times: int) -> None:
        self.held: dict[int, list[Callable[[], object]]] = defaultdict(list)
        self.asked = 0
        failing(*(self._lost(time) for time in times), *[self._answered] * 9)

    def _lost(self, time: int) -> Fault:
        def fault(catalog: SqlCatalog, given: tuple[Any, ...]) -> None:
            self._begin()
            if time == self.asked:
                REAL(catalog, *given)
            else:
                self.held[time].append(lambda: REAL(catalog, *given))
            raise OperationalError("COMMIT", {}, Exception("the connection was lost"))

        return fault

    def _answered(self, catalog: SqlCatalog, given: tuple[Any, ...]) -> Any:
        self._begin()
        return REAL(catalog, *given)

    def _begin(self) -> None:
        self.asked += 1
        self.take_effect(self.asked)

    def take_effect(self, time: int) -> None:
        for late in self.held.pop(time, []):
            with suppress(CommitFailedException, ValueError):
                late()


def night(number: int, ids: range) -> pa.Table:
    start = datetime(2026, 1, number)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "ts": pa.array([start + timedelta(minutes=n) for n in range(len(ids))], pa.timestamp("us")),
            "value": pa.array([number] * len(ids), pa.int64()),
        }
    )


def sink(lake: Lake, spec: TableSpec, number: int, rows: pa.Table) -> None:
    start, end = utc(f"2026-01-{number:02d}T00:00:00"), utc(f"2026-01-{number + 1:02d}T00:00:00")
    lake.sink(spec, rows, start=start, end=end)


def content(lake: Lake, spec: TableSpec) -> list[tuple[int, int]]:
    found = lake.rows(spec)
    return list(zip(found["id"].to_pylist(), found["value"].to_pylist(), strict=True))


def assert_whole(table: Table) -> None:
    """Every snapshot can be read, and each manifest is the one that its snapshot has listed."""
    for snapshot in table.snapshots():
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        for manifest in snapshot.manifests(table.io):
            assert manifest.manifest_length == len(table.io.new_input(manifest.manifest_path))
            own = {
                entry.snapshot_id for entry in manifest.fetch_manifest_entry(table.io) if entry.status == 1
            }
            assert own <= {manifest.added_snapshot_id}


def swept(lake: Lake, spec: TableSpec) -> list[str]:
    return sweep_writes(open_catalog(spec.iceberg, lake.warehouse), spec.table, stale_after=0)


def vacuumed(lake: Lake, spec: TableSpec) -> TableVacuumOutcome:
    catalog, later = open_catalog(spec.iceberg, lake.warehouse), datetime.now(UTC) + timedelta(days=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIPSLAKE_STALE_SECONDS", "0")  # everybody else looks dead
        return vacuum_table(catalog, spec.table, Retention.of(1, 0.0), now=later, dry_run=False)
