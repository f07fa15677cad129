"""The one place where formats are registered: a new one is a class in a module of its own, and a line here.

Its options are a model in `hipslake.specs.source_spec`: specs are validated without loading any reader.
"""

from __future__ import annotations

from importlib import import_module

from hipslake.sources.source_reader import Source
from hipslake.specs.source_spec import CsvOptions, SourceSpec

READERS = {
    "parquet": "hipslake.sources.parquet.ParquetSource",
    "csv": "hipslake.sources.csv.source.CsvSource",
    "fits": "hipslake.sources.fits.source.FitsSource",
    "votable": "hipslake.sources.votable.source.VotableSource",
    "ecsv": "hipslake.sources.ecsv.source.EcsvSource",
    "avro": "hipslake.sources.avro.source.AvroSource",
}


def open_source(spec: SourceSpec) -> Source:
    """Return the reader of a source. Nothing is read, nor listed, yet."""
    module, _, name = READERS[spec.format].rpartition(".")
    reader: type[Source] = getattr(import_module(module), name)
    found = reader(_with_types(spec))
    if spec.folders:
        from hipslake.sources.hive_folders import FolderSource

        found = FolderSource(found)
    if spec.taken is not None:
        from hipslake.sources.shaped_source import ShapedSource

        found = ShapedSource(found)
    return found


def _with_types(spec: SourceSpec) -> SourceSpec:
    """Have a CSV file's columns read as what they are cast to: a text is not taken for a number first."""
    if spec.columns is None or not isinstance(spec.options, CsvOptions):
        return spec
    old = {new: old for old, new in spec.columns.rename.items()}
    cast = {old.get(name, name): text for name, text in spec.columns.cast.items()}
    cast = {name: text for name, text in cast.items() if name not in (spec.folders or ())}
    options = spec.options.model_copy(update={"types": cast | spec.options.types})
    return spec.model_copy(update={"options": options})
