"""Where the spec files are that the DAGs are made of."""

from __future__ import annotations

import os
from pathlib import Path

from hipslake.specs.environment import PROJECT_ROOT


def specs_folder() -> Path:
    """Return the folder whose subfolders hold the specs: `HIPSLAKE_SPECS`, or that of the checkout."""
    return Path(os.environ.get("HIPSLAKE_SPECS") or PROJECT_ROOT / "include" / "specs")
