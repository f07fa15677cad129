"""What the requests of a run say: how many of each kind, and how many had to wait for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit


class Asked(NamedTuple):
    """A request to a store and its answer, as a proxy saw them.

    Attributes
    ----------
    connection : int
    began, ended : float
        Seconds of the machine's monotonic clock: its head was there; the answer's last byte was passed on.
    method : str
        As S3 names it, and `COPY` for a PUT that copies an object of the store.
    path : str
        With its query.
    range : str
        The header; "" if there is none.
    status : int
        0 if there was no answer.
    sent, received : int
        Bytes of the bodies.
    expects : bool
        Whether the client asked first if it may send the body, which is another round trip.
    """

    connection: int
    began: float
    ended: float
    method: str
    path: str
    range: str
    status: int
    sent: int
    received: int
    expects: bool


def chain(asked: Iterable[Asked]) -> list[Asked]:
    """The longest chain of requests none of which began before the one before it had ended.

    Of all that begin after the chain's last has ended, the next is the one that ends first: no other choice
    gives a longer chain.
    """
    found: list[Asked] = []
    for each in sorted(asked, key=lambda one: (one.ended, one.began)):
        if not found or each.began >= found[-1].ended:
            found.append(each)
    return found


def round_trips(asked: Iterable[Asked]) -> int:
    """Round trips one after the other: of the longest chain, those with `Expect` twice."""
    return sum(1 + each.expects for each in chain(asked))


def kind_of(asked: Asked) -> str:
    """What a request asks of a store, in the words of S3's interface.

    >>> one = Asked(1, 0.0, 1.0, "GET", "/lake/a?list-type=2&prefix=b", "", 200, 0, 10, False)
    >>> kind_of(one), kind_of(one._replace(path="/lake/a", range="bytes=0-9"))
    ('list', 'range')
    """
    query = parse_qs(urlsplit(asked.path).query, keep_blank_values=True)
    if asked.method == "GET" and ("list-type" in query or "prefix" in query):
        return "list"
    if asked.method == "GET":
        return "range" if asked.range else "get"
    if "uploadId" in query or "uploads" in query:
        return "multipart"
    if asked.method == "POST" and "delete" in query:
        return "delete"
    return {"PUT": "put", "HEAD": "head", "COPY": "copy", "DELETE": "delete"}.get(asked.method, asked.method)


def counted(asked: Iterable[Asked]) -> dict[str, int]:
    """How many requests there are of each kind, most first."""
    return dict(Counter(map(kind_of, asked)).most_common())


def kinds_in_a_row(asked: Sequence[Asked]) -> str:
    """The kinds of a chain in order, those that follow each other together.

    >>> one = Asked(1, 0.0, 1.0, "HEAD", "/lake/a", "", 200, 0, 0, False)
    >>> kinds_in_a_row([one, one, one._replace(method="GET")])
    '2 head, get'
    """
    rows: list[tuple[str, int]] = []
    for each in asked:
        kind = kind_of(each)
        rows = [*rows[:-1], (kind, rows[-1][1] + 1)] if rows and rows[-1][0] == kind else [*rows, (kind, 1)]
    return ", ".join(kind if times == 1 else f"{times} {kind}" for kind, times in rows)


def within(asked: Iterable[Asked], began: float, ended: float) -> list[Asked]:
    """The requests that began in a stretch of time."""
    return [each for each in asked if began <= each.began < ended]
