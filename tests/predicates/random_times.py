"""Dates, moments and times of a day, with the values that go wrong most easily, and literals near to them."""

from __future__ import annotations

import datetime
from random import Random

import pyarrow as pa

from tests.predicates.column_kinds import Kind
from tests.predicates.reference import Literal

_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY = 86_400 * 10**9
_BILLION = 10**9
_DAY_OF_1970 = datetime.date(1970, 1, 1).toordinal()
_I64 = 2**63


def dates(arrow: pa.DataType) -> Kind:
    def draw(random: Random) -> list[int]:  # days
        days = [-719162, 0, 1, -1, 20393, 20394, 20423, 2932896, random.randint(15000, 21000)]
        return days if arrow == pa.date64() else [*days, 2932897, -719163]

    def array(stored: list[int | None]) -> pa.Array:
        wide = pa.array(stored, pa.int32()).cast(pa.date32()) if arrow == pa.date32() else None
        return (
            wide
            if wide is not None
            else pa.array([None if day is None else day * 86_400_000 for day in stored], pa.int64()).cast(
                pa.date64()
            )
        )

    return Kind(
        arrow,
        "moment",
        draw,
        array,
        lambda day: day * _DAY,
        lambda random, near: _moment(random, near * _DAY, zoned=False),
    )


def timestamps(unit: str, zone: str | None) -> Kind:
    arrow, ns = pa.timestamp(unit, zone), _NS[unit]

    def draw(random: Random) -> list[int]:
        day, seconds = 86_400 * _BILLION // ns, _BILLION // ns
        values = [0, 1, -1, 20393 * day, 20393 * day + 1, 20393 * day - 1, 20423 * day + 12 * 3600 * seconds]
        values += [20394 * day, random.randint(15000, 21000) * day + random.randint(0, 86_399) * seconds]
        most = (_I64 - 1) // (1000 if unit == "s" else 1)  # Parquet has milliseconds for seconds
        return [*values, most, -most] if random.random() < 0.2 else values

    def array(stored: list[int | None]) -> pa.Array:
        return pa.array(stored, pa.int64()).cast(arrow)

    return Kind(
        arrow,
        "zoned moment" if zone else "moment",
        draw,
        array,
        lambda stored: stored * ns,
        lambda random, near: _moment(random, near * ns, zoned=zone is not None),
    )


def _moment(random: Random, near: int, *, zoned: bool) -> Literal:
    """A date or a moment as text; its nanoseconds are reckoned by the calendar of Python's dates."""
    if random.random() < 0.2:
        near += random.choice((1, -1, 10**3, -(10**6), 10**9, _DAY))
    if random.random() < 0.15 or not -719162 * _DAY <= near < 2932896 * _DAY:
        near = random.choice((-719162, 2932895, 0, 20393, 20394, 20423, -150000, 110000)) * _DAY
    day, rest = divmod(near, _DAY)
    date = datetime.date.fromordinal(_DAY_OF_1970 + day)
    year = f"{date.year:04d}"
    pick = random.random()
    if pick < 0.1:
        return _time_literal(year, _days(datetime.date(date.year, 1, 1)))
    if pick < 0.2:
        return _time_literal(f"{year}-{date.month:02d}", _days(datetime.date(date.year, date.month, 1)))
    if pick < 0.4:
        return _time_literal(date.isoformat(), _days(date))
    text, value = f"{date.isoformat()}T{_clock_text(random, rest)}", near
    if zoned and random.random() < 0.6:
        offset = random.choice((None, 2, -5)) if 1 < date.year < 9999 else None
        text += "Z" if offset is None else f"{offset:+03d}:00"
        value -= (offset or 0) * 3600 * _BILLION
    return _time_literal(text, value)


def _time_literal(text: str, value: int) -> Literal:
    return Literal(f"'{text}'", value, text)


def _days(date: datetime.date) -> int:
    return (date.toordinal() - _DAY_OF_1970) * _DAY


def _clock_text(random: Random, ns: int) -> str:
    seconds, fraction = divmod(ns, _BILLION)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    if fraction:
        figures = f"{fraction:09d}"
        return f"{text}.{figures.rstrip('0') if random.random() < 0.5 else figures}"
    return text + random.choice(("", "", ".0", ".000000"))


def clocks(arrow: pa.DataType) -> Kind:
    ns = _NS[arrow.unit]

    def draw(random: Random) -> list[int]:
        day = _DAY // ns
        return [0, 1, day - 1, day // 2, day // 2 + 1, random.randrange(day), 21 * 3600 * (_BILLION // ns)]

    def array(stored: list[int | None]) -> pa.Array:
        return pa.array(stored, pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(arrow)

    def literal(random: Random, near: int) -> Literal:
        value = near * ns
        if random.random() < 0.3:
            value = min(max(0, value + random.choice((1, -1, 1000, -(10**6), _BILLION))), _DAY - 1)
        value -= value % 1000  # times are written in microseconds
        return _time_literal(_clock_text(random, value)[: len("21:30:00.000000")], value)

    return Kind(arrow, "clock", draw, array, lambda stored: stored * ns, literal)
