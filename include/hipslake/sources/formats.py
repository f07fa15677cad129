"""The one place where formats are registered: a new one is a class in a module of its own, and a line here.

Its options are a model in `hipslake.specs.source_spec`: specs are validated without loading any reader.
"""

from __future__ import annotations

from importlib import import_module

from hipslake.sources.source_reader import Source
from hipslake.specs.source_spec import SourceSpec

READERS = {
    "parquet": "hipslake.sources.parquet.ParquetSource",
    "csv": "hipslake.sources.csv.source.CsvSource",
    "fits": "hipslake.sources.fits.source.FitsSource",
    "votable": "hipslake.sources.votable.source.VotableSource",
    "ecsv": "hipslake.sources.ecsv.source.EcsvSource",
}


def open_source(spec: SourceSpec) -> Source:
    """Return the reader of a source. Nothing is read, nor listed, yet."""
    module, _, name = READERS[spec.format].rpartition(".")
    reader: type[Source] = getattr(import_module(module), name)
    return reader(spec)
