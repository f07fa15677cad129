"""The evolve step of a table: what its spec and its rows ask for is planned, and done by one commit."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa

from hipslake.catalog.catalog_reader import CatalogReader
from hipslake.errors import SourceNotFoundError
from hipslake.sources import open_source
from hipslake.sources.csv.inference import held_types
from hipslake.specs.environment import expand
from hipslake.specs.spec_folder import load_spec
from hipslake.specs.table_rows import CatalogRowsSpec
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.evolve_table.request import EvolveTableReport, EvolveTableRequest
from hipslake.steps.listed_files import MOST_FILES, list_files, spread
from hipslake.steps.report import Phases
from hipslake.steps.run import catalog_uri
from hipslake.steps.sink.catalog_rows import schema_of_catalog
from hipslake.steps.sink.sink_columns import stored_columns
from hipslake.steps.upkeep.old_runs import remove_old_runs_of_dag
from hipslake.tables.opening import open_table


def run(request: EvolveTableRequest) -> EvolveTableReport:
    """Change a table so that its spec, and the columns of its source, fit to it.

    Raises
    ------
    SpecError
        The spec is wrong.
    SchemaMismatchError
        The table cannot be changed so.
    CatalogNotFoundError, CorruptFileError
        The source cannot be read.
    ConflictError
        Others kept changing the table.
    CommitStateUnknownError
        The catalog does not say whether the table was changed.
    StorageError
        Catalog or store do not answer.
    """
    phases = Phases()
    spec = load_spec(request.spec_file, TableSpec)
    told = EvolveTableReport(dry_run=request.dry_run, table=spec.table)
    with closing(open_table(spec.place, request.warehouse, spec.table)) as table:
        state = table.now()
        if state is None:
            text = f"There is no table {spec.table} yet: the first sink makes it."
            return told.model_copy(update={"text": text})
        with phases("columns"):
            stored = _stored(request, spec)
        with phases("evolve"):
            changes = table.evolve(spec, stored, dry_run=request.dry_run)
    with phases("runs"):
        removed = [] if request.dry_run else remove_old_runs_of_dag(request.run_uri)
    texts = tuple(each.text for each in changes)
    return told.model_copy(
        update={
            "changes": texts,
            "changes_count": len(texts),
            "location": state.location,
            "snapshot_id": state.version,
            "rows_known": stored is not None,
            "removed": tuple(removed),
            "text": _text(spec, texts, dry_run=request.dry_run, rows_known=stored is not None),
            "seconds": phases.seconds,
        }
    )


def _stored(request: EvolveTableRequest, spec: TableSpec) -> pa.Schema | None:
    """The columns of the source, as the table keeps them; None where no file says them."""
    source = spec.source
    if isinstance(source, CatalogRowsSpec):
        named = "/" not in source.catalog
        uri = catalog_uri(request.warehouse, source.catalog) if named else expand(source.catalog)
        metadata = CatalogReader.open(uri, source.version).metadata
        return stored_columns(schema_of_catalog(metadata, source.columns), source.columns, spec)
    files = source.files
    if spec.needs_interval:
        if request.window.start is None:
            return None
        files = files.of_interval(request.window.start, request.window.end)
    try:
        found = spread(list_files(files, may_be_empty=True)[0], MOST_FILES)
    except SourceNotFoundError:
        return None
    if not found:
        return None
    peeked = open_source(files).peek(found)
    if any(held_types(field) is not None for field in peeked):
        return None  # only all rows tell the types of such columns
    return stored_columns(peeked, source.columns, spec)


def _text(spec: TableSpec, changes: tuple[str, ...], *, dry_run: bool, rows_known: bool) -> str:
    lines = []
    if not rows_known:
        lines.append("No file says the columns of the source, so only the spec was looked at.")
    if not changes:
        lines.append(f"Table {spec.table} is as its spec asks.")
    elif dry_run:
        lines += [f"Of table {spec.table}, this would be changed:", *(f"- {each}" for each in changes)]
    else:
        lines += [f"Of table {spec.table}, this was changed:", *(f"- {each}" for each in changes)]
    return "\n".join(lines)
