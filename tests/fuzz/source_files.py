"""Source files, spoilt: every reader gets sound files with some places changed, and some made up anew."""

from __future__ import annotations

from tests.fuzz import avro_files, bombs, csv_files, ecsv_files, fits_files, parquet_files, votable_files

_MODULES = (avro_files, csv_files, ecsv_files, fits_files, votable_files, parquet_files, bombs)
TARGETS = tuple(module.TARGET for module in _MODULES)
