"""Make a fixture anew by the code of its commit: `python -m tests.upgrade.make first_catalogs`.

Takes a checkout of this repository with its history, and the present environment. Of the code that made
`lists_of_structs`, by its program in `made_by`, no commit was kept: that fixture cannot be made anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path

from tests.airflow_home import PROJECT
from tests.upgrade.unpacked import PLACE

HERE = Path(__file__).parent
COMMITS = {
    "first_catalogs": "065856e256",  # the last one before increments
    "first_cube": "7ee2d3b681",  # the last one before cubes kept how their datasets align
    "format_1": "18475aa67e",  # the last one that wrote format version 1
    "repeated_positions": "eec1cfba67",  # both groups had the positions of the source
}
PARTS = ("warehouse", "landing", "state")
LEFT_OUT = ("_runs", "_skymaps", "tables")  # pictures are large, and are drawn again
KEPT = {"format_1": ("_runs", "tables")}  # of runs that it began, and of a table


def main(name: str) -> None:
    """Write `<name>.tar.xz`."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder, "checkout")
        git = ["git", "-C", str(PROJECT), "worktree"]
        subprocess.run([*git, "add", "--detach", str(checkout), COMMITS[name]], check=True)
        try:
            _make(name, checkout)
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def _make(name: str, checkout: Path) -> None:
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{checkout / 'include'}:{checkout}",
        "HIPSLAKE_LANDING": str(PLACE / "landing"),
    }
    script = HERE / "made_by" / f"{name}.py"
    subprocess.run([sys.executable, script, PLACE], check=True, cwd=checkout, env=environment)
    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz") as archive:
        for part in PARTS:
            if (PLACE / part).exists():
                archive.add(PLACE / part, part, filter=partial(_kept, name))
    shutil.rmtree(PLACE)


def _kept(fixture: str, entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if Path(entry.name).name in {*LEFT_OUT} - {*KEPT.get(fixture, ())}:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(sys.argv[1])
