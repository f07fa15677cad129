"""Thresholds: text both ways, and what is wrong with the texts that are none."""

from __future__ import annotations

import pytest
from hipslake.specs.threshold import Threshold, ThresholdUnit
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("20000 rows", 20_000, "rows"),
        ("1M rows", 1_000_000, "rows"),
        ("1_000_000 rows", 1_000_000, "rows"),
        ("1.5M rows", 1_500_000, "rows"),
        ("20k rows", 20_000, "rows"),
        ("1 row", 1, "rows"),
        ("64 MiB", 64 * 2**20, "bytes"),
        ("64MiB", 64 * 2**20, "bytes"),
        ("200 kB", 200_000, "bytes"),
        ("1.1 GB", 1_100_000_000, "bytes"),
        ("17 B", 17, "bytes"),
        ("17 bytes", 17, "bytes"),
    ],
)
def test_texts_that_users_write(text: str, value: int, unit: str) -> None:
    assert Threshold.parse(text) == Threshold(value=value, unit=ThresholdUnit(unit))


@given(st.integers(1, 2**50), st.sampled_from(ThresholdUnit))
def test_text_gives_the_same_threshold_back(value: int, unit: ThresholdUnit) -> None:
    threshold = Threshold(value=value, unit=unit)
    assert Threshold.parse(str(threshold)) == threshold
    assert Threshold.model_validate_json(threshold.model_dump_json()) == threshold


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (20_000, "has no unit"),
        (True, "has no unit"),
        ("20000", "is no threshold"),
        ("-5 rows", "is no threshold"),
        ("5 Mb", "'Mb' is no unit"),
        ("0 rows", "at least 1"),
        ("0.3 rows", "not a whole number"),
        ("0.3 KiB", "not a whole number"),
    ],
)
def test_what_is_no_threshold_says_what_would_be(given: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Threshold.model_validate(given)


def test_json_schema_is_a_string() -> None:
    assert Threshold.model_json_schema()["type"] == "string"
    assert Threshold.model_json_schema(mode="serialization")["type"] == "string"
