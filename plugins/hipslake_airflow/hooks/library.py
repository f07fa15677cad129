"""The library as one zip that travels with a Spark job, so that workers need third-party packages only."""

from __future__ import annotations

import zipfile
from pathlib import Path

import hipslake

LIBRARY = Path(hipslake.__file__).parent
JOBS = Path(__file__).parents[1] / "spark_jobs"  # in a checkout a link to the folder at its top
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold: the same sources give the same bytes


def job_path(job: str) -> str:
    """Return the path of a job's entry point."""
    return str(JOBS / f"{job}.py")


def build_library_archive(folder: Path) -> Path:
    """Write `hipslake.zip` with every module of the library into a folder; return its path."""
    target = folder / "hipslake.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(LIBRARY.rglob("*.py")):
            name = module.relative_to(LIBRARY.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), module.read_bytes(), zipfile.ZIP_DEFLATED)
    return target
