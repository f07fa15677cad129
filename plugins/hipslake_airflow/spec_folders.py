"""Where the spec files are that the DAGs are made of."""

from __future__ import annotations

import os
from pathlib import Path

from hipslake.specs.environment import in_checkout, root_folder


def specs_folders() -> list[Path]:
    """Return the folders whose subfolders hold the specs: those of `HIPSLAKE_SPECS`, parted by colons.

    By default it is `include/specs` of a checkout; elsewhere `specs` below the root.
    """
    given = [Path(each) for each in os.environ.get("HIPSLAKE_SPECS", "").split(os.pathsep) if each]
    return given or [root_folder() / ("include/specs" if in_checkout() else "specs")]
