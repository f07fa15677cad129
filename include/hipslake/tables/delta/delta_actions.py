"""Actions of a Delta table's log: a commit has one a line, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from hipslake.errors import CorruptFileError
from hipslake.storage.plain_json import plain_json

OURS = "hipslake"
"""In the `commitInfo` of a commit: which write of ours made it."""

Action = dict[str, Any]


def write_in(info: Action) -> str:
    """The write of ours that made a commit, by its `commitInfo`; "" for those of others."""
    told = info.get(OURS)
    return str(told.get("write", "")) if isinstance(told, dict) else ""


def whole_path(location: str, path: str) -> str:
    """Where a file lies, by its path in the log: encoded as in URIs, and relative to the table mostly."""
    plain = unquote(path)
    if "://" in plain or plain.startswith("/"):
        return plain
    if plain.startswith("file:"):
        return plain.removeprefix("file:")
    return f"{location.rstrip('/')}/{plain}"


def file_identity(told: Action) -> str:
    """What tells a file from others, and from itself with other rows deleted, by its `add` or `remove`."""
    vector = told.get("deletionVector")
    if not vector:
        return str(told["path"])
    at = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{told['path']}\n{vector.get('storageType')}{vector.get('pathOrInlineDv')}{at}"


def parsed(data: bytes, where: str) -> list[Action]:
    """The actions of a commit.

    Raises
    ------
    CorruptFileError
        It is no commit of the published format.
    """
    found = []
    for line in data.splitlines():
        if not line.strip():
            continue
        try:
            action = plain_json(line)
        except ValueError as error:
            raise CorruptFileError(
                f"{where}: a line of this commit is no JSON ({error}); restore it"
            ) from None
        if not isinstance(action, dict) or not all(isinstance(told, dict | None) for told in action.values()):
            raise CorruptFileError(f"{where}: a line of this commit is no action; restore it")
        found.append(action)
    return found


def lines(actions: Iterable[Action]) -> bytes:
    """The bytes of a commit."""
    texts = (json.dumps(each, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for each in actions)
    return ("\n".join(texts) + "\n").encode()
