"""Which compactions of a Delta table have written only rows of one write, noted in files beside the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hipslake.storage.folder import Storage
from hipslake.tables.delta.delta_files import write_of_path
from hipslake.tables.delta.delta_writes import writes_below

KEPT = "kept"
"""The folder, in that of a write, for rows that stay of files with others."""

_REWRITTEN = "_rewritten"


def _folder(location: str) -> Storage:
    return writes_below(location).sub(_REWRITTEN)


def note_origin(location: str, write_id: str, paths: Iterable[str], alone: Callable[[str], bool]) -> None:
    """Note before the commit of a compaction, where all that it rewrites is of one write, which that is.

    Parameters
    ----------
    location : str
        Of the table.
    write_id : str
        Of the compaction.
    paths : iterable of str
        Of the files that it rewrites, in the log.
    alone : callable
        Whether the files of a write hold its own rows only.
    """
    rewritten = list(paths)
    if any(map(is_kept, rewritten)):
        return
    origins = origins_noted(location)
    found = {origin_of(origins, write_of_path(path)) for path in rewritten}
    if len(found) == 1 and alone(write := found.pop()):
        _folder(location).write(write_id, write.encode())


def is_kept(path: str) -> bool:
    """Whether a file of a write holds rows that the write found in the table, by its folder."""
    parts = path.split("/")
    return len(parts) > 3 and parts[2] == KEPT


def origins_noted(location: str) -> dict[str, str]:
    """By the compactions that have written only rows of one write, the write whose files they rewrote."""
    folder = _folder(location)
    return {entry.path: folder.read(entry.path).decode() for entry in folder.list()}


def origin_of(origins: Mapping[str, str], write_id: str) -> str:
    """The write that brought the rows of a write: itself, but for compactions that have noted it."""
    seen: set[str] = set()
    while write_id in origins and write_id not in seen:
        seen.add(write_id)
        write_id = origins[write_id]
    return write_id


def writes_with_rows_of(location: str, write_id: str) -> set[str]:
    """The writes whose files hold rows of one write only: itself, and compactions of its files."""
    writes, origins = {write_id}, origins_noted(location)
    while more := {name for name, origin in origins.items() if origin in writes} - writes:
        writes |= more
    return writes
