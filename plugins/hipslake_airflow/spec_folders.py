"""Where the DAG files look for specs."""

from __future__ import annotations

import os
from pathlib import Path

from hipslake.specs.environment import PROJECT_ROOT

SPECS = Path(os.environ.get("HIPSLAKE_SPECS") or PROJECT_ROOT / "include" / "specs")
CATALOG_SPECS = SPECS / "catalogs"
JOIN_SPECS = SPECS / "joins"
TABLE_SPECS = SPECS / "tables"
CUBE_SPECS = SPECS / "cubes"
