"""The SQL check of an audit: DuckDB runs a SELECT of the spec, and the rows that it gives are violations."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from hipslake.errors import SpecError
from hipslake.optional_packages import imported
from hipslake.steps.audit.branch_checks import BranchRows
from hipslake.steps.audit.request import AuditedCheck

_SHOWN = 3


def sql_check(text: str, tables: Mapping[str, BranchRows]) -> AuditedCheck:
    """Run a SELECT; it has to give no row.

    Only the tables that it names are loaded, into a database of DuckDB in a temporary folder. It can neither
    read nor write anything else.

    Parameters
    ----------
    text : str
    tables : mapping of str to BranchRows
        What it can name.

    Raises
    ------
    SpecError
        It is no SELECT, or DuckDB refuses it.
    MissingPackageError
        DuckDB is not installed.
    """
    duckdb = imported("duckdb", "the sql of an audit")
    with (
        tempfile.TemporaryDirectory(prefix="hipslake-audit-") as folder,
        duckdb.connect(str(Path(folder, "rows.duckdb"))) as connection,
    ):
        try:
            rows, columns, some = _run(duckdb, connection, text, tables, folder)
        except duckdb.Error as error:
            told = " ".join(str(error).split())
            raise SpecError(
                f"audit.sql: DuckDB refuses it: {told[:500]}; it can name the tables {' and '.join(tables)}"
            ) from None
    found = ""
    if rows:
        named = [zip(columns, row, strict=True) for row in some]
        shown = [", ".join(f"{name}={value}" for name, value in row)[:300] for row in named]
        found = f"it gives {rows} rows, such as ({'), ('.join(shown)})"
    return AuditedCheck(check="sql: gives no row", ok=not rows, found=found)


def _run(
    duckdb: Any, connection: Any, text: str, tables: Mapping[str, BranchRows], folder: str
) -> tuple[int, list[str], list[tuple[Any, ...]]]:
    """How many rows it gives, their columns, and some of them."""
    statements = connection.extract_statements(text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise SpecError(
            f"audit.sql: has to be one SELECT, whose rows are violations, and is {len(statements)} statements"
            if len(statements) != 1
            else "audit.sql: has to be a SELECT, whose rows are violations; write one"
        )
    connection.execute("SET temp_directory = ?", [folder])
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET python_enable_replacements = false")  # names of tables are no variables of Python
    for name, source in tables.items():
        if re.search(rf"\b{name}\b", text, re.IGNORECASE):
            batches = pa.RecordBatchReader.from_batches(
                source.schema.remove_metadata(), source.batches(source.schema.names)
            )
            connection.register("hipslake_rows", batches)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM hipslake_rows")
            connection.unregister("hipslake_rows")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    result = connection.execute(statements[0])
    columns = [each[0] for each in result.description]
    count, some = 0, list[tuple[Any, ...]]()
    while rows := result.fetchmany(10_000):
        some += rows[: _SHOWN - len(some)] if len(some) < _SHOWN else []
        count += len(rows)
    return count, columns, some
