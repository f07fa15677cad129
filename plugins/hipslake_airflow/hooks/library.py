"""The library as one zip that travels with a Spark job, so that workers need third-party packages only."""

from __future__ import annotations

import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, source_hash
from pathlib import Path

import hipslake

LIBRARY = Path(hipslake.__file__).parent
JOBS = Path(__file__).parents[1] / "spark_jobs"  # in a checkout a link to the folder at its top
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold: the same sources give the same bytes
_QUICKLY = 1  # the level of zlib: each job has one made
# A compiled file (PEP 552) begins with a magic number, flags, and what tells whether it is of its source.
_HEADER_BYTES = 16
_NOT_COMPARED = (0b01).to_bytes(4, "little")  # flags: a hash of the source follows, and nobody compares it


def job_path(job: str) -> str:
    """Return the path of a job's entry point."""
    return str(JOBS / f"{job}.py")


def build_library_archive(folder: Path) -> Path:
    """Write `hipslake.zip` with every module of the library into a folder; return its path.

    Beside its source a module is there as this Python has compiled it, since a Python keeps nothing that it
    compiles out of a zip: each driver, and each process of an executor, would compile all that it imports. A
    Python of another version passes over what is compiled.
    """
    target = folder / "hipslake.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for module in sorted(LIBRARY.rglob("*.py")):
            path = module.relative_to(LIBRARY.parent)
            contents = {path: module.read_bytes(), path.with_suffix(".pyc"): _compiled(module)}
            for name, content in contents.items():
                if content is not None:
                    entry = zipfile.ZipInfo(name.as_posix(), _EPOCH)
                    archive.writestr(entry, content, zipfile.ZIP_DEFLATED, _QUICKLY)
    return target


def _compiled(module: Path) -> bytes | None:
    """A module as Python keeps it compiled, with a new header; None where it keeps nothing of this source."""
    source = module.read_bytes()
    kept = _kept(module, source)
    if kept is None:
        SourceFileLoader(module.stem, str(module)).get_code(module.stem)  # is kept by that, where that can be
        kept = _kept(module, source)
    return None if kept is None else MAGIC_NUMBER + _NOT_COMPARED + source_hash(source) + kept


def _kept(module: Path, source: bytes) -> bytes | None:
    """What Python keeps of a module, without its header, if that says that it is of this source."""
    try:
        kept, status = Path(cache_from_source(module)).read_bytes(), module.stat()
    except (OSError, NotImplementedError):
        return None
    if kept[4:8] == bytes(4):  # flags: its time and size are told
        found = (int(status.st_mtime), len(source))
        told = b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in found)
    else:
        told = source_hash(source)
    return kept[_HEADER_BYTES:] if kept[:4] == MAGIC_NUMBER and kept[8:_HEADER_BYTES] == told else None
