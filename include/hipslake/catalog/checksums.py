"""Lists of checksums beside files that no metadata names one by one: as `sha256sum --check` takes them.

Paths are relative to the catalog's root, as in the `SHA256SUMS` there. The last line is a comment with the
checksum of those above, so that damage to a list is not taken for damage to its files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from hipslake.storage.folder import Storage

CHECKSUMS = "SHA256SUMS"
"""The name of a list."""
HIDDEN_CHECKSUMS = f"_{CHECKSUMS}"
"""Its name in a folder that is read as a whole: dataset readers pass over what begins with `_`."""

_LISTS = (CHECKSUMS, HIDDEN_CHECKSUMS)
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_LAST = "# of the lines above: "


def checksum_of(data: bytes) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def checksum_list(files: Mapping[str, str]) -> bytes:
    """The content of a list.

    Parameters
    ----------
    files : mapping of str to str
        Checksums by path.
    """
    lines = "".join(f"{digest}  {path}\n" for path, digest in sorted(files.items()))
    return f"{lines}{_LAST}{checksum_of(lines.encode())}\n".encode()


def listed_checksums(data: bytes) -> dict[str, str] | None:
    """The checksums of a list, by path; None if the list is not as it was written."""
    try:
        lines, _, last = data.decode().rpartition(_LAST)
    except UnicodeDecodeError:
        return None
    if last != f"{checksum_of(lines.encode())}\n":
        return None
    found = [_LINE.fullmatch(line) for line in lines.splitlines()]
    return {match[2]: match[1] for match in found if match}


def list_folder(storage: Storage, folder: str) -> dict[str, str]:
    """The checksums of all files below a folder, by path; those of lists are left out."""
    paths = [entry.path for entry in storage.list(folder, recursive=True)]
    return {path: storage.sha256(path) for path in paths if path.rpartition("/")[2] not in _LISTS}
