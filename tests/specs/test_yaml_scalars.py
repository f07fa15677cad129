"""Values that YAML reads in another way than they look: none becomes another, all are told as written."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.yaml_model import load_yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples

SPEC = "name: stars\nsource: {uri: /d/*.csv, format: csv}\nposition: {ra: ra, dec: dec}\n"
TIMES = ["2026-11-20", "2026-11-20 12:30:00", "2026-11-20T12:30:00.5+02:00", "2026-11-20T12:30:00Z"]
TRUTHS = ["yes", "No", "true", "False", "on", "OFF"]
BASE_60 = ["12:30:00", "1:30", "-190:20:30.5"]
OCTAL = ["010", "-017", "0_1", "00"]
TAGGED = [
    "!!set {a, b}",
    "!!omap [a: 1]",
    "!!pairs [a: 1]",
    "!!binary aGVsbG8=",
    "!!python/none x",
    "!x y",
]
KEYS = {
    "text": ["description", "attribution", "schedule", "position: {ra: ra, unit"],
    "number": ["highest_order", "deadline_minutes", "bad_rows: {max_fraction", "margin: {arcsec"],
    "list": ["index", "co_partitioned"],
    "choice": ["mode", "parquet: {compression"],
}


def told(place: Path, key: str, value: str) -> str:
    """What is said of a value, behind the key; nothing: it is taken."""
    spec = SPEC.replace("position: {ra: ra, dec: dec}\n", "") if key.startswith("position") else SPEC
    more = ", dec: dec}" if key.startswith("position") else "}" if "{" in key else ""
    (place / "stars.yaml").write_text(f"{spec}{key}: {value}{more}\n")
    try:
        load_yaml(place / "stars.yaml", CatalogSpec)
    except SpecError as error:
        lines = str(error).splitlines()
        assert len(lines) == 1
        name = key.replace(": {ra: ra, ", ".").replace(": {", ".")
        before, found, text = lines[0].partition(f": {name}: ")
        assert found, lines[0]
        assert before.startswith(f"{place}/stars.yaml:")
        return text
    return ""


@pytest.mark.parametrize("key", [key for keys in KEYS.values() for key in keys])
@pytest.mark.parametrize("value", [*TIMES, *TRUTHS, ".nan", "-.inf", "0x1_F", "1_000_000", "1.5e+300"])
def test_what_does_not_fit_is_told_as_it_is_written(tmp_path: Path, key: str, value: str) -> None:
    text = told(tmp_path, key, value)
    if value == "0x1_F" and key in ("deadline_minutes", "margin: {arcsec"):
        assert text == ""
    else:
        own = ("a margin of ",) if key == "margin: {arcsec" else ()  # what it says of its bounds
        assert text.startswith((f"{value} does not fit; write ", *own))
    if key in KEYS["text"][:3]:
        assert text == f"{value} does not fit; write a text, in quotes"


@pytest.mark.parametrize("key", [key for keys in KEYS.values() for key in keys])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (BASE_60, "{} is a number of base 60 to YAML; put it in quotes if it is a text"),
        (OCTAL, "{} is an octal number to YAML; leave out the 0, or put it in quotes if it is a text"),
    ],
)
def test_numbers_that_yaml_reads_as_others_are_refused(
    tmp_path: Path, key: str, values: list[str], message: str
) -> None:
    for value in values:
        assert told(tmp_path, key, value) == message.format(value)


@pytest.mark.parametrize("value", TAGGED)
def test_tags_are_refused(tmp_path: Path, value: str) -> None:
    for keys in KEYS.values():
        assert told(tmp_path, keys[0], value).endswith("has no place in a spec; write the value without it")


def test_in_quotes_all_of_them_are_texts(tmp_path: Path) -> None:
    for value in (*TIMES, *TRUTHS, *BASE_60, *OCTAL, "=", "~", "null", ".nan"):
        (tmp_path / "stars.yaml").write_text(f"{SPEC}description: '{value}'\n")
        assert load_yaml(tmp_path / "stars.yaml", CatalogSpec)[0].description == value


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", *TIMES[:1]])
def test_an_epoch_that_is_none(tmp_path: Path, value: str) -> None:
    (tmp_path / "stars.yaml").write_text(SPEC.replace("dec: dec", f"dec: dec, epoch: {value}"))
    with pytest.raises(
        SpecError, match=rf"position\.epoch: {value} is no epoch; write a Julian year, such as"
    ):
        load_yaml(tmp_path / "stars.yaml", CatalogSpec)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "bad_rows: {<<: {max_fraction: yes}}",
            "4: bad_rows.max_fraction: a truth does not fit; write a number",
        ),
        ("<<: {highest_order: yes}", "1: highest_order: a truth does not fit; write a number"),
        ("lowest_order: &x yes\nhighest_order: *x", "5: highest_order: yes does not fit; write a number"),
        ("columns: {010: {unit: deg}}", "4: columns: the key 010 is an octal number to YAML"),
        ("columns: {12:30: {unit: deg}}", "4: columns: the key 12:30 is a number of base 60 to YAML"),
        (
            "columns: {=: {unit: deg}}",
            "4: columns: the key = has a meaning of its own to YAML; put it in quotes",
        ),
        (
            "deadline_minutes: +_01",
            "4: deadline_minutes: +_01 begins like a number and is none to YAML; put it in quotes",
        ),
        ("description: =", "4: description: = has a meaning of its own to YAML; put it in quotes"),
    ],
)
def test_what_is_merged_in_and_keys_are_told_too(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "stars.yaml").write_text(f"{SPEC}{text}\n")
    with pytest.raises(SpecError) as told:
        load_yaml(tmp_path / "stars.yaml", CatalogSpec)
    assert f"{tmp_path}/stars.yaml:{message}" in str(told.value)


def meant(text: str) -> float | None:
    """The number that a text is to its reader; None: none, or not clear."""
    plain = text.replace("_", "")
    sign, digits = (plain[0], plain[1:]) if plain[:1] in ("+", "-") else ("", plain)
    try:
        if digits[:2] in ("0x", "0b"):
            return float(int(sign + digits, 0))
        if re.fullmatch("0[0-7]+", digits):
            return None
        value = float(plain)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.from_regex(r"[+-]?[0-9_:.xb]{1,8}", fullmatch=True),
        st.from_regex(r"[+-]?[0-9]{1,4}(\.[0-9]{0,3})?(e[+-]?[0-9]{1,2})?", fullmatch=True),
        st.sampled_from([*TRUTHS, *BASE_60, *OCTAL, *TIMES, "~", "1e3", "0o17"]),
    )
)
@example(text="+_01")
@example(text="-_.5")
def test_no_number_becomes_another(tmp_path: Path, text: str) -> None:
    (tmp_path / "stars.yaml").write_text(f"{SPEC}deadline_minutes: {text}\n")
    try:
        found = load_yaml(tmp_path / "stars.yaml", CatalogSpec)[0].deadline_minutes
    except SpecError:
        return
    if found is not None:
        assert found == meant(text)
    else:
        assert text == "~"
