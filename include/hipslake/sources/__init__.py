"""Readers of survey files: every format comes out as Arrow record batches of one schema, in source order."""

from __future__ import annotations

from hipslake.sources.formats import open_source
from hipslake.sources.source_file import SourceFile, Split
from hipslake.sources.source_reader import Source

__all__ = ["Source", "SourceFile", "Split", "open_source"]
