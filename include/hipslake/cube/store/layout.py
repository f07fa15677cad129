"""Paths of the files of a cube, relative to its root; no other module joins these paths.

`<write>/<dataset>/<P=0>/<Q=1>/<write>-00003-000.parquet`, beside `<write>/indices/<dataset>/<column>/...` and
`<write>/_sidecars/<dataset>.parquet`. The names of data files hold the write that wrote them first, so they
are unique in a cube, also after it was copied.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

CUBES = "cubes"
"""The folder of the cubes of a warehouse."""

JOINED_FILES = "*/_joined/*.parquet"
"""Where joined rows lie, of all versions."""

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 120


def cube_uri(warehouse: str, name: str) -> str:
    """The root of a cube.

    Examples
    --------
    >>> cube_uri("/data/warehouse", "sky")
    '/data/warehouse/cubes/sky'
    """
    return "/".join([warehouse.rstrip("/"), CUBES, name])


def data_path(write_id: str, dataset: str, values: Mapping[str, Any], task: int, number: int) -> str:
    """A data file.

    Examples
    --------
    >>> data_path("20261121T0330-7f3a", "seed", {"P": 0, "Q": "a/b"}, 3, 0)
    '20261121T0330-7f3a/seed/P=0/Q=a%2Fb/20261121T0330-7f3a-00003-000.parquet'
    """
    folders = "".join(f"{each}/" for each in value_folders(values))
    return f"{write_id}/{dataset}/{folders}{write_id}-{task:05d}-{number:03d}.parquet"


def value_folders(values: Mapping[str, Any]) -> list[str]:
    """The folders for values of columns, named as by Hive; long texts are cut.

    Examples
    --------
    >>> value_folders({"P": 0, "Q": "a/b"})
    ['P=0', 'Q=a%2Fb']
    """
    return [f"{quote(name, safe='')}={_folder(value)}" for name, value in values.items()]


def index_path(write_id: str, dataset: str, column: str, task: int) -> str:
    """A part of the index of a column: what the files of one task hold."""
    safe = _UNSAFE.sub("_", column)
    digest = "" if safe == column else "_" + hashlib.sha256(column.encode()).hexdigest()[:8]
    return f"{write_id}/indices/{dataset}/{safe}{digest}/{task:05d}.parquet"


def files_path(write_id: str, dataset: str) -> str:
    """The table of the files of a dataset."""
    return f"{write_id}/_sidecars/{dataset}.parquet"


def joined_path(write_id: str, task: int, number: int) -> str:
    """A file of joined rows."""
    return f"{write_id}/_joined/{write_id}-{task:05d}-{number:03d}.parquet"


def moved(path: str, write_id: str) -> str:
    """Where a file of another cube lies once it was copied into a write.

    Examples
    --------
    >>> moved("20261121T0330-7f3a/seed/P=0/x.parquet", "20261122T0000-0001")
    '20261122T0000-0001/seed/P=0/x.parquet'
    """
    return f"{write_id}/{path.partition('/')[2]}"


def value_text(value: Any) -> str:
    """A value as text: times in ISO 8601, bytes in hexadecimal.

    Examples
    --------
    >>> value_text(b"ab"), value_text(True)
    ('6162', 'True')
    """
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if isinstance(value, datetime.date) else str(value)


def _folder(value: Any) -> str:
    text = value_text(value)
    name = quote(text, safe="")
    # A name of a folder has at most 255 bytes on most file systems.
    return name if len(name) <= _LONGEST else name[:80] + "_" + hashlib.sha256(text.encode()).hexdigest()[:16]
