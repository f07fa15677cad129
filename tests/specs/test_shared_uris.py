"""Two intervals of a schedule with one URI are found, as all of its starts by croniter show them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest
from hipslake.specs.cron import Cron
from hipslake.specs.schedule import check_cron
from hipslake.specs.shared_uris import check_uris_apart
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples

croniter = pytest.importorskip("croniter")

_FIRST = date(2024, 1, 1)


def _numbers(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    item = st.one_of(
        st.just("*"),
        number.map(str),
        st.tuples(number, number).map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.tuples(number, st.integers(1, high + 2)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
        st.tuples(number, number, st.integers(1, high)).map(lambda of: f"{of[0]}-{of[1]}/{of[2]}"),
        st.integers(1, high).map(lambda step: f"*/{step}"),
    )
    some = st.lists(number.map(str), min_size=2, max_size=4).map(",".join)
    return st.one_of(st.just("*"), item, some)


_MONTHS = st.one_of(_numbers(1, 12), st.sampled_from(["JAN", "feb-APR", "NOV-FEB", "2", "4,6"]))
_WEEKDAYS = st.one_of(_numbers(0, 7), st.sampled_from(["MON", "MON-FRI", "sat-tue", "6-7", "SUN,WED"]))
CRONS = st.one_of(
    st.tuples(_numbers(0, 59), _numbers(0, 23), _numbers(1, 31), _MONTHS, _WEEKDAYS).map(" ".join),
    st.tuples(st.just("0 3"), _numbers(1, 31), _MONTHS, _WEEKDAYS).map(" ".join),
    st.tuples(st.just("0"), _numbers(0, 23), st.just("* * *")).map(" ".join),
)
_DAYS = st.tuples(st.just("0 0"), _numbers(1, 31), _MONTHS, st.just("*")).map(" ".join)


def starts(
    cron: str, number: int, after: datetime = datetime(2023, 12, 31, 23, 59, tzinfo=UTC)
) -> list[datetime]:
    """The first starts after a moment, by croniter."""
    found = croniter.croniter(cron, after)
    return [found.get_next(datetime) for _ in range(number)]


def ours(cron: str, number: int) -> list[datetime]:
    parsed = Cron.parse(cron)
    found = (datetime.combine(day, at, UTC) for day in parsed.dates(_FIRST, 200) for at in parsed.times)
    return [moment for _, moment in zip(range(number), found, strict=False)]


@settings(max_examples=examples(300), deadline=None)
@given(CRONS)
def test_starts_are_those_of_croniter(cron: str) -> None:
    assert croniter.croniter.is_valid(cron)
    try:
        expected = starts(cron, 60)
    except croniter.CroniterBadDateError:
        with pytest.raises(ValueError, match="never comes"):
            check_cron(cron)
        return
    assert check_cron(cron) == cron
    assert ours(cron, 60) == expected


@settings(max_examples=examples(100), deadline=None)
@given(_DAYS)
def test_dates_that_never_come_are_those_that_croniter_does_not_find(cron: str) -> None:
    try:
        starts(cron, 1)
    except croniter.CroniterBadDateError:
        with pytest.raises(ValueError, match="never comes"):
            check_cron(cron)
    else:
        check_cron(cron)


@pytest.mark.parametrize("cron", ["0 3 31 2 *", "0 0 30 FEB *", "* * 31 4,6,9,11 *", "0 0 30-31 2 *"])
def test_dates_that_never_come(cron: str) -> None:
    with pytest.raises(ValueError, match="never comes: no month of it has such a day"):
        check_cron(cron)


_PARTS = [f"%{letter}" for letter in "YymdHMjUWVGauIpb"]
_FIELD = st.tuples(
    st.sampled_from(["start", "end"]), st.lists(st.sampled_from(_PARTS), min_size=1, max_size=4)
)
_FIELDS = st.lists(_FIELD, min_size=1, max_size=2)


@settings(max_examples=examples(300), deadline=None)
@given(CRONS, _FIELDS, st.sampled_from(["-", "", "/"]))
@example("0 3 8-20 4-9 0,3", [("start", ["%a"])], "-")  # Sundays in September 2031 and April 2032
def test_what_is_refused_is_what_all_starts_show(
    cron: str, fields: list[tuple[str, list[str]]], between: str
) -> None:
    """Brute force: the URIs of some hundred starts, filled without the library, one after the other."""
    assume(Cron.parse(cron).comes())
    uri = "/x/" + "/".join(f"{{{{ {which}:{between.join(form)} }}}}" for which, form in fields) + ".csv"

    def shared(moments: list[datetime]) -> bool:
        filled = [
            "/".join((a if which == "start" else b).strftime(between.join(form)) for which, form in fields)
            for a, b in pairwise(moments)
        ]
        return any(one == other for one, other in pairwise(filled))

    try:
        check_uris_apart(uri, cron)
    except ValueError as error:
        told = re.findall(r"from (\d{4}-\d\d-\d\dT\d\d:\d\d)", str(error))
        one, other = (datetime.fromisoformat(f"{each}+00:00") for each in told)
        moments = starts(cron, 3, one - timedelta(minutes=1))
        assert moments[:2] == [one, other]
        assert shared(moments)
    else:
        assert not shared(starts(cron, 700))


@pytest.mark.parametrize(
    ("schedule", "uri", "message"),
    [
        ("0 3 * * SUN", "{{ start:%Y-%m }}", "several intervals in one month.*start:%Y-%m-%d }}"),
        ("@weekly", "{{ start:%Y-%m }}", "several intervals in one month"),
        ("@monthly", "{{ start:%Y }}", "several intervals in one year.*start:%Y-%m }}"),
        ("@quarterly", "{{ start:%Y }}", "several intervals in one year"),
        ("0 0 13 * FRI", "{{ start:%Y-%m }}", "several intervals in one month"),
        ("0 0 1 */6 *", "{{ start:%d }}", "several intervals in one year"),
        ("@yearly", "{{ start:%m-%d }}", "does not tell its intervals apart.*start:%Y }}"),
        ("0 0 1,31 1,12 *", "{{ start:%G-W%V }}", "several intervals"),
        ("0 0 29 2 *", "{{ start:%m-%d }}", "does not tell"),
        ("0 0 1,11 1,11 *", "{{ start:%-m%-d }}", "several intervals"),
        ("0 0 13 * FRI", "{{ night }}", None),
        ("@monthly", "{{ start:%Y/%m }}", None),
        ("@quarterly", "{{ start:%Y-%b }}", None),
        ("*/7 * * * *", "{{ start:%Y%m%d%H%M }}", None),
        ("@yearly", "{{ end:%Y }}", None),
    ],
)
def test_periods_that_are_coarser_than_the_schedule(schedule: str, uri: str, message: str | None) -> None:
    if message is None:
        check_uris_apart(uri, schedule)
    else:
        with pytest.raises(ValueError, match=message):
            check_uris_apart(uri, schedule)
