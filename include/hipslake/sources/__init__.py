"""Readers of survey files: every format comes out as Arrow record batches of one schema, in source order."""

from __future__ import annotations

from hipslake.sources.model import SourceFile, Split
from hipslake.sources.names import check_names
from hipslake.sources.reader import Source
from hipslake.sources.registry import open_source

__all__ = ["Source", "SourceFile", "Split", "check_names", "open_source"]
