"""The entries of listings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

_STAMPS = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "updated", "mtime", "created")


class GlobMatches(NamedTuple):
    """The matches of a pattern: the files, and what is left out: hidden files, folders, pipes, devices."""

    files: list[Entry]
    passed_over: list[Entry]


_TIMES = ("LastModified", "last_modified", "updated", "mtime", "created")


def time_in(info: dict[str, Any]) -> float | None:
    """When the object was written that fsspec's `info` describes, in seconds since 1970; None: unknown."""
    stamp = next((info[key] for key in _TIMES if info.get(key) is not None), None)
    if isinstance(stamp, str):
        try:
            stamp = datetime.fromisoformat(stamp)
        except ValueError:
            return None
    if isinstance(stamp, datetime):
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    return float(stamp) if isinstance(stamp, int | float) else None


class Entry(NamedTuple):
    """One file or folder of a listing."""

    path: str  # relative to the storage's root
    size: int  # bytes; 0 for folders
    stamp: str  # etag where the store gives one, else the modification time in ISO 8601; "" for folders
    is_dir: bool
    is_special: bool = False  # a pipe, a socket or a device, which is never read

    @classmethod
    def from_info(cls, path: str, info: dict[str, Any]) -> Entry:
        """The entry that fsspec's `info` of an object describes, whose size it tells."""
        if info["type"] == "directory":
            return cls(path, 0, "", True)
        stamp = next((info[key] for key in _STAMPS if info.get(key) is not None), "")
        if isinstance(stamp, int | float):
            stamp = datetime.fromtimestamp(stamp, UTC)
        text = stamp.isoformat() if isinstance(stamp, datetime) else str(stamp)
        return cls(path, int(info["size"]), text, False)


def chosen_matches(found: list[Entry], pattern: str) -> GlobMatches:
    """The matches of a pattern, of which hidden ones only match a pattern that says so."""
    any_name = pattern.rpartition("/")[2] in ("*", "**")
    hidden = [entry for entry in found if _dotted(entry.path) > _dotted(pattern)]
    shown = [entry for entry in found if _dotted(entry.path) <= _dotted(pattern)]
    passed_over = [entry for entry in hidden if not entry.is_dir]
    passed_over += [entry for entry in shown if entry.is_special or (entry.is_dir and not any_name)]
    files = [entry for entry in shown if not entry.is_dir and not entry.is_special]
    return GlobMatches(files, sorted(passed_over))


def _dotted(path: str) -> int:
    """How many names of a path, or of a pattern, begin with a dot."""
    return sum(name.startswith(".") for name in path.split("/"))
