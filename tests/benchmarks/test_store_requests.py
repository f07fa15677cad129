"""Round trips of a run are those of the longest chain of its requests."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.store_requests import Asked, chain, counted, kind_of, kinds_in_a_row, round_trips, within

REQUEST = Asked(1, 0.0, 1.0, "GET", "/lake/a", "", 200, 0, 10, False)
SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda at: (at[0], at[0] + at[1])), max_size=40
)


def over(*spans: tuple[float, float]) -> list[Asked]:
    return [REQUEST._replace(began=began, ended=ended) for began, ended in spans]


def longest(spans: list[tuple[int, int]]) -> int:
    """The longest chain, looked for by trying every request as the last one."""
    best: list[int] = []
    along = sorted(spans)
    for at, (began, _) in enumerate(along):
        best.append(1 + max((best[b] for b in range(at) if along[b][1] <= began), default=0))
    return max(best, default=0)


@given(spans=SPANS)
@example(spans=[(0, 10), (0, 2), (2, 4), (4, 6)])
@example(spans=[(0, 5), (4, 7), (6, 11)])
def test_the_chain_is_the_longest_there_is(spans: list[tuple[int, int]]) -> None:
    found = chain(over(*spans))
    assert len(found) == longest(spans)
    assert all(after.began >= before.ended for before, after in pairwise(found))


def test_requests_side_by_side_are_one_round_trip() -> None:
    assert round_trips(over((0, 3), (0.1, 3.2), (0.2, 2.9))) == 1
    assert round_trips(over((0, 3), (3, 6), (6.5, 7))) == 3
    assert round_trips([]) == 0


def test_a_client_that_asks_before_it_sends_makes_two_round_trips() -> None:
    first, second = over((0, 1), (1, 2))
    assert round_trips([first, second._replace(expects=True)]) == 3


def test_kinds_are_those_of_the_interface() -> None:
    asked = {
        "list": REQUEST._replace(path="/lake?list-type=2&prefix=a&delimiter=%2F"),
        "get": REQUEST,
        "range": REQUEST._replace(range="bytes=-65536", status=206),
        "head": REQUEST._replace(method="HEAD"),
        "put": REQUEST._replace(method="PUT"),
        "copy": REQUEST._replace(method="COPY"),
        "delete": REQUEST._replace(method="DELETE"),
        "multipart": REQUEST._replace(method="PUT", path="/lake/a?partNumber=1&uploadId=x"),
    }
    assert {name: kind_of(each) for name, each in asked.items()} == {name: name for name in asked}
    assert kind_of(REQUEST._replace(method="POST", path="/lake?delete")) == "delete"
    assert kind_of(REQUEST._replace(method="POST", path="/lake/a?uploads")) == "multipart"
    assert counted([asked["get"], asked["put"], asked["get"]]) == {"get": 2, "put": 1}
    assert kinds_in_a_row([asked["get"], asked["put"], asked["put"]]) == "get, 2 put"


def test_requests_belong_to_the_stretch_in_which_they_began() -> None:
    asked = over((0, 1), (1, 5), (3, 4))
    assert within(asked, 1, 3) == [asked[1]]
