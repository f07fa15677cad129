"""Ordinals of increments: numbers that are part of each `_row`. No two increments have the same one.

`_versions/ordinals/00000003.json` names the owner of an ordinal. The ordinal has to be known before the
first row is written, long before the commit, so a run claims it by creating that file. A run that dies leaves
a gap in the numbers, which does no harm.
"""

from __future__ import annotations

import json

from hipslake.errors import StorageError
from hipslake.storage.folder import Storage

ORDINALS = "_versions/ordinals"
MAX_ORDINAL = (1 << 23) - 1  # with 40 bits for the row, a `_row` stays positive


def claim_ordinal(storage: Storage, first: int, owner: str) -> int:
    """Claim the next free ordinal.

    Parameters
    ----------
    storage : Storage
        At the root of the catalog.
    first : int
        The lowest that may be free: one more than the largest that a version knows.
    owner : str
        Who takes it; says so again if the store gives no clear answer.

    Raises
    ------
    StorageError
        All are taken.
    """
    ordinal = first
    while ordinal <= MAX_ORDINAL:
        path = f"{ORDINALS}/{ordinal:08d}.json"
        claim = claim_text(ordinal, owner)
        # The file may be our own, created by a request whose answer was lost.
        if storage.create(path, claim) or storage.read(path) == claim:
            return ordinal
        ordinal += 1
    error = StorageError(f"{storage.uri()}: all {MAX_ORDINAL + 1} ordinals are taken; start a new catalog")
    error.retryable = False
    raise error


def claim_text(ordinal: int, owner: str) -> bytes:
    """The content of the file of a claim."""
    return json.dumps({"ordinal": ordinal, "owner": owner}).encode()
