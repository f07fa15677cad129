"""Variables in a compose file mean what the Compose Specification says."""

from __future__ import annotations

import pytest
from hipslake_cluster.interpolation import MissingVariableError, interpolate

SET = {"FOO": "foo", "EMPTY": "", "BAR": "bar"}


@pytest.mark.parametrize(
    ("text", "meant"),
    [  # 12-interpolation.md of the specification
        ("$FOO", "foo"),
        ("${FOO}", "foo"),
        ("${UNSET}", ""),
        ("${UNSET:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("${UNSET-default}", "default"),
        ("${EMPTY-default}", ""),
        ("${FOO:?error}", "foo"),
        ("${EMPTY?error}", ""),
        ("${FOO:+replacement}", "replacement"),
        ("${EMPTY:+replacement}", ""),
        ("${EMPTY+replacement}", "replacement"),
        ("${UNSET+replacement}", ""),
        ("${UNSET:-${FOO}}", "foo"),
        ("${UNSET:-${OTHER:-${BAR}}}!", "bar!"),
        ("${FOO?$BAR}", "foo"),
        ("$$FOO $${FOO}", "$FOO ${FOO}"),
        ('{"a": "${FOO}", "b": {"c": "${UNSET:-http://d:1}"}}', '{"a": "foo", "b": {"c": "http://d:1"}}'),
    ],
)
def test_a_variable_stands_for_its_value(text: str, meant: str) -> None:
    assert interpolate({"a": [text]}, SET) == {"a": [meant]}


def test_all_missing_variables_are_told_at_once_with_the_mend() -> None:
    document = ["${KEY:?draw it}", {"a": "${EMPTY:?fill it with $FOO}"}, "${FOO:?is there}"]
    with pytest.raises(MissingVariableError) as raised:
        interpolate(document, SET)
    assert str(raised.value) == "KEY is not set: draw it\nEMPTY is not set: fill it with foo"


@pytest.mark.parametrize("text", ["${FOO", "${-}", "$", "costs 5$", "${FOO BAR}"])
def test_what_is_no_variable_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"variable|brace"):
        interpolate(text, SET)
