"""What the parts of the append step know of the run that they work for."""

from __future__ import annotations

import pyarrow as pa

from hipslake.catalog.evolution import evolved_schema, source_schema, typed_columns
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.engine.model import Engine
from hipslake.steps.append.request import AppendRequest
from hipslake.steps.attempts import FrozenState
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
from hipslake.steps.report import Phases
from hipslake.steps.run import FrozenRun, RunFolder
from hipslake.storage.folder import Storage


class AppendRun:
    """A run that appends: what it froze and counted, its catalog, and the engine that it works on.

    Attributes
    ----------
    request : AppendRequest
    folder : RunFolder
    frozen : FrozenRun
    inputs : FrozenInputs
    counted : HistogramReport
    state : FrozenState
        By which its attempts are told from those of an earlier start of the run.
    key : str
        Of the increment.
    catalog : Storage
        At the catalog's root.
    engine : Engine
    phases : Phases
    """

    def __init__(self, request: AppendRequest, engine: Engine) -> None:
        self.request = request
        self.folder: RunFolder = request.folder
        self.frozen: FrozenRun = self.folder.run()
        self.inputs = self.folder.inputs()
        self.counted = self.folder.read(RunFolder.report_path(HistogramRequest.step), HistogramReport)
        self.state = FrozenState.of(self.frozen, self.inputs)
        self.key = self.frozen.start.isoformat()
        self.catalog = Storage.at(self.frozen.catalog_uri)
        self.engine = engine
        self.phases = Phases()

    def schema_after(self, base: CatalogMetadata | None) -> pa.Schema:
        """The source schema of the catalog with the increment."""
        spec = self.frozen.spec
        if base is None:
            return typed_columns(spec, self.folder.schema())
        given = self.folder.schema() if self.counted.rows_in else source_schema(base)
        return evolved_schema(base, spec, given)
