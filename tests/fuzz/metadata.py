"""What lies in a warehouse, spoilt: metadata, version logs, run folders, and what tables say of sinks."""

from __future__ import annotations

from tests.fuzz import (
    catalog_metadata,
    cube_metadata,
    run_folders,
    table_properties,
    version_log_reading,
    warehouse_tables,
)

TARGETS = (
    catalog_metadata.TARGET,
    catalog_metadata.OLDER,
    cube_metadata.TARGET,
    version_log_reading.TARGET,
    run_folders.TARGET,
    warehouse_tables.SIDECAR,
    warehouse_tables.POINT_MAP,
    table_properties.TARGET,
)
