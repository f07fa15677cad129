"""Sinks to a branch and their audits, for tests: nights that pass and nights that do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hipslake.errors import AuditError
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_spec import TableSpec
from hipslake.specs.vacuum_spec import Retention
from hipslake.steps.audit.request import AuditReport, AuditRequest
from hipslake.steps.registry import STEPS
from hipslake.steps.run import RunFolder
from hipslake.tables.iceberg.catalogs import open_catalog
from hipslake.tables.iceberg.expire_snapshots import vacuum_table
from pyiceberg.table import Table

from tests.steps.nights import Survey, night_rows
from tests.steps.sinks import INCREMENTS, Lake, told

AUDIT = (
    "branch: audit\n"
    "audit: {rows: {min: 1}, not_null: [id], ranges: {mag: {min: -5, max: 40}}, unique: [id]}\n"
)


def audit(folder: RunFolder) -> AuditReport:
    report = STEPS["audit"].perform(AuditRequest(run_uri=folder.uri))
    assert isinstance(report, AuditReport)
    return report


def night(lake: Lake, **fields: Any) -> AuditReport:
    """A whole run: what is missing is sunk, then audited."""
    folder = lake.resolve(**fields)
    if told(folder).orders:
        lake.sink(folder)
    return audit(folder)


def on_branch(lake: Lake, survey: Survey) -> RunFolder:
    """A run of a table with an audit that has sunk the first night, and not audited it yet."""
    lake.write_spec(INCREMENTS + AUDIT)
    survey.night(0)
    folder = lake.resolve()
    lake.sink(folder)
    return folder


def left_on_branch(lake: Lake, survey: Survey, passed: int) -> str:
    """Let so many nights pass, and the next one not, whose rows stay on the branch; what its audit says."""
    lake.write_spec(INCREMENTS + AUDIT)
    for number in range(passed):
        survey.night(number)
        night(lake)
    spoilt(survey, passed)
    with pytest.raises(AuditError) as failed:
        night(lake)
    return str(failed.value)


def refs(table: Table) -> set[str]:
    return set(table.metadata.refs)


def spoilt(survey: Survey, number: int) -> None:
    """A night one of whose rows cannot be."""
    survey.night(number)
    rows = survey.landed[number]
    mag = rows["mag"].to_numpy().copy()
    mag[7] = 99.0
    survey.land(number, rows.set_column(3, "mag", pa.array(mag)))
    survey.append(number)


def mended(survey: Survey, number: int) -> None:
    survey.night(number, seed=1)


def vacuum(lake: Lake, keep: int = 1) -> None:
    spec = load_spec(lake.spec, TableSpec)
    later = datetime.now(UTC) + timedelta(days=60)
    catalog = open_catalog(spec.iceberg, lake.warehouse)
    vacuum_table(catalog, spec.table, Retention.of(keep, 0.0), now=later, dry_run=False)


def other_commit(table: Table, number: int = 10**9) -> None:
    """A commit of others to main."""
    some = table.scan(limit=1).to_arrow()
    values = {field.name: pa.nulls(1, field.type) for field in some.schema}
    values["id"] = pa.array([number], some.schema.field("id").type)
    table.append(pa.table(values, some.schema))


def report_text(folder: RunFolder) -> str:
    return Path(folder.uri, "reports", "resolve.json").read_text()


def spoilt_rows(number: int, seed: int) -> pa.Table:
    rows = night_rows(number, 20, seed)
    mag = rows["mag"].to_numpy().copy()
    mag[3] = 99.0
    return rows.set_column(3, "mag", pa.array(mag))
