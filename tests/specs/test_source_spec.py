"""Options of formats: mistakes are told where a spec is read."""

from __future__ import annotations

from typing import Any

import pytest
from hipslake.specs.source_spec import SourceSpec
from pydantic import ValidationError


def csv(**options: Any) -> SourceSpec:
    return SourceSpec.model_validate({"uri": "/landing/*.csv", "format": "csv", "options": options})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"header": False}, "column_names must list the columns"),
        ({"column_names": ["a", "b", "a"]}, "column_names has a name twice"),
        ({"delimiter": ";", "comment": ";"}, "have to be different characters"),
        ({"newlines_in_values": True, "quote": None}, "newlines_in_values needs a quote character"),
        ({"newlines_in_values": True, "comment": "#"}, "comment and newlines_in_values exclude each other"),
        ({"types": {"a": "int65"}}, "'int65' is no Arrow type; write"),
        ({"types": {"a": "decimal128(39, 2)"}}, "is no Arrow type"),
    ],
)
def test_mistakes_in_options_of_csv_say_their_mend(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        csv(**options)


def test_options_that_go_together_are_taken() -> None:
    assert csv(header=False, column_names=["a", "b"]).format == "csv"
    assert csv(newlines_in_values=True, delimiter=";").format == "csv"


@pytest.mark.parametrize("given", [7, "a text", None])
def test_what_is_no_mapping_is_no_source(given: object) -> None:
    with pytest.raises(ValidationError):
        SourceSpec.model_validate(given)
