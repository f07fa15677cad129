"""Documents of a run that later steps believe: signed with a key of the deployment, each for its own place.

`HIPSLAKE_RUN_KEY` is known to the tasks and to nobody who fills in forms, edits XComs or writes into a
warehouse. A document that has no signature, was changed, or was copied from another run or place is refused.
Where the variable is not set, as in programs that run the steps on their own, nothing is signed and nothing
is asked for.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import Any

from hipslake.errors import StepError
from hipslake.storage.addresses import normal_address
from hipslake.storage.plain_json import plain_json

KEY = "HIPSLAKE_RUN_KEY"
_FIELD = "signature"


def signed(document: str, place: str) -> str:
    """A JSON object with its signature in it, if there is a key.

    Parameters
    ----------
    document : str
        JSON of an object.
    place : str
        The URI of the file that it is for.
    """
    key = os.environ.get(KEY)
    if not key:
        return document
    content = json.loads(document)
    return json.dumps({_FIELD: _signature(content, place, key), **content}, indent=1)


def verified(data: bytes, place: str) -> bytes:
    """The JSON object without its signature.

    Parameters
    ----------
    data : bytes
        As it was read.
    place : str
        The URI of the file that it was read from.

    Raises
    ------
    StepError
        There is a key, and the object is not signed with it for this place.
    """
    key = os.environ.get(KEY)
    if not key and b'"signature"' not in data:
        return data
    try:
        content = plain_json(data)
    except ValueError:
        content = None  # whoever parses it says what is wrong
    if not isinstance(content, dict):
        return data
    signature = content.pop(_FIELD, None)
    if key:
        right = isinstance(signature, str) and hmac.compare_digest(
            signature.encode(), _signature(content, place, key).encode()
        )
        if not right:
            raise StepError(
                f"{place} is not what a task of this deployment wrote for this run: its signature is "
                f"{'missing' if signature is None else 'wrong'}. Clear the run from its first task to write "
                f"it again; if {KEY} was not changed, look who can write there"
            )
    return json.dumps(content).encode()


def without_signature(data: bytes) -> bytes:
    """The JSON object that a signed one holds, whoever wrote it: for what is shown, and nothing else."""
    try:
        content = plain_json(data)
    except ValueError:
        return data  # whoever parses it says what is wrong
    if not isinstance(content, dict):
        return data
    content.pop(_FIELD, None)
    return json.dumps(content).encode()


def _signature(content: dict[str, Any], place: str, key: str) -> str:
    text = json.dumps([normal_address(place), content], sort_keys=True, separators=(",", ":"))
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()
