"""What is asked of REST catalogs of Iceberg, and what they answer, as the specification has it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from pyiceberg.typedef import Identifier

PAGE = 100  # of a list that is asked for in pages of no size
SEPARATOR = "\x1f"  # between the levels of a namespace in a path


class ToldError(Exception):
    """An answer other than the one that was asked for, as the specification has it.

    Parameters
    ----------
    status : int
    kind : str
        The name of the exception that clients know.
    message : str
    """

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind

    def body(self) -> dict[str, Any]:
        """The model of an error."""
        return {"error": {"message": str(self), "type": self.kind, "code": self.status}}


class Request(NamedTuple):
    """A request that has come.

    Attributes
    ----------
    parts : dict
        What stands in the path in the place of `{...}`, decoded.
    query : dict
    headers : mapping
    body : bytes
    """

    parts: dict[str, str]
    query: dict[str, str]
    headers: Any
    body: bytes

    @property
    def namespace(self) -> Identifier:
        return tuple(self.parts["namespace"].split(SEPARATOR))

    @property
    def table(self) -> Identifier:
        return (*self.namespace, self.parts["table"])

    def told(self) -> dict[str, Any]:
        found = json.loads(self.body)
        if not isinstance(found, dict):
            raise ValueError("the body of the request is no object")
        return found


class Answer(NamedTuple):
    """What is answered: nothing but the status, or a body as JSON."""

    status: int = 204
    body: Any = None
    etag: str = ""


def page_of(found: list[Identifier], request: Request) -> tuple[list[Identifier], dict[str, Any]]:
    """A page of a list where pages are asked for by `pageToken`, the name that the page before ended with."""
    if "pageToken" not in request.query:
        return found, {}
    size = int(request.query.get("pageSize", PAGE))
    if size < 1:
        raise ValueError(f"pageSize is {size}")
    after = request.query["pageToken"]
    rest = [each for each in found if not after or _token(each) > after]
    more = _token(rest[size - 1]) if len(rest) > size else None
    return rest[:size], {"next-page-token": more}


def _token(name: Identifier) -> str:
    return SEPARATOR.join(name).encode().hex()
