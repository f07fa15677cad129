"""Whether the pictures beside the leaves are whole: a PNG file has a checksum of each of its parts."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.checks.version_files import text_of
from hipslake.catalog.layouts import skymap_path
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.storage.folder import Storage

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_END = b"IEND"


def picture_problems(storage: Storage, metadata: CatalogMetadata) -> Iterator[Problem]:
    """What is wrong with the sky maps of a version; whether there are any is for nobody to say.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    """
    for group in metadata.groups:
        path = skymap_path(metadata.write_id, group.name)
        data = text_of(storage, path)
        if data is not None and not is_whole_picture(data):
            message = "is no whole picture"
            yield Problem.of(ProblemKind.VIEW, path, message, readers=False, repairable=True)


def is_whole_picture(data: bytes) -> bool:
    """Whether a PNG file is, bit by bit, what was written."""
    if not data.startswith(_SIGNATURE):
        return False
    at, kind = len(_SIGNATURE), b""
    while kind != _END:
        length = int.from_bytes(data[at : at + 4], "big")
        end = at + 12 + length
        kind, part, told = data[at + 4 : at + 8], data[at + 4 : end - 4], data[end - 4 : end]
        if end > len(data) or zlib.crc32(part) != int.from_bytes(told, "big"):
            return False
        at = end
    return at == len(data)
