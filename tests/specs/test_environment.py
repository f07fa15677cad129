"""Environment variables in the URIs of specs."""

from __future__ import annotations

import pytest
from hipslake.errors import SpecError
from hipslake.specs.environment import PROJECT_ROOT, expand


def test_folders_default_into_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIPSLAKE_LANDING", raising=False)
    monkeypatch.setenv("HIPSLAKE_WAREHOUSE", "")  # set to nothing is not set
    assert expand("${HIPSLAKE_LANDING}/gaia/*.parquet") == f"{PROJECT_ROOT}/.data/landing/gaia/*.parquet"
    assert expand("${HIPSLAKE_WAREHOUSE}") == f"{PROJECT_ROOT}/.data/warehouse"
    assert (PROJECT_ROOT / "pyproject.toml").exists()


def test_variables_win_and_may_be_urls_or_relative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSLAKE_LANDING", "s3://bucket/in")
    assert expand("${HIPSLAKE_LANDING}/a/*.csv") == "s3://bucket/in/a/*.csv"
    monkeypatch.setenv("HIPSLAKE_LANDING", "data")
    assert expand("${HIPSLAKE_LANDING}/a/*.csv") == f"{PROJECT_ROOT}/data/a/*.csv"
    monkeypatch.setenv("DR", "dr3")
    assert expand("/survey/${DR}/*.csv") == "/survey/dr3/*.csv"


def test_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SURVEY", raising=False)
    with pytest.raises(SpecError, match=r"variable 'SURVEY' is not set.*HIPSLAKE_LANDING"):
        expand("${SURVEY}/x")
    with pytest.raises(SpecError, match="not closed"):
        expand("/data/${SURVEY/x")
