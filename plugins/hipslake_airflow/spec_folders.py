"""Where the spec files are that the DAGs are made of."""

from __future__ import annotations

import os
from pathlib import Path

from hipslake.specs.environment import in_checkout, root_folder


def specs_folder() -> Path:
    """Return the folder whose subfolders hold the specs: `HIPSLAKE_SPECS`, or by default that of the root.

    In a checkout it is `include/specs`, elsewhere `specs`.
    """
    default = root_folder() / ("include/specs" if in_checkout() else "specs")
    return Path(os.environ.get("HIPSLAKE_SPECS") or default)
