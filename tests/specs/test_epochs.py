"""Epochs and frames, as astronomers write them."""

from __future__ import annotations

from typing import Any

import pytest
from astropy.time import Time
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import PositionSpec
from hipslake.specs.join_specs import match_options
from pydantic import ValidationError

from tests.examples import ALL


@pytest.mark.parametrize("frame", ["icrs", "galactic", "fk5"])
def test_frames_are_written_in_any_case(frame: str) -> None:
    for written in (frame, frame.upper(), frame.title(), f" {frame} "):
        assert PositionSpec(ra="a", dec="b", frame=written).frame == frame  # type: ignore[arg-type]


def test_julian_epochs_are_those_of_astropy() -> None:
    for year in range(18_000, 22_001, 1 if ALL else 37):
        text = f"J{year / 10:.1f}"
        found = PositionSpec(ra="a", dec="b", epoch=text).epoch  # type: ignore[arg-type]
        assert found == pytest.approx(Time(text).jyear, abs=1e-9)
        assert match_options(radius_arcsec=1, epoch=text.lower()).epoch == found


@pytest.mark.parametrize(("given", "year"), [("J2000", 2000), ("2016", 2016), (2015.5, 2015.5), (1991, 1991)])
def test_a_number_is_a_julian_year(given: Any, year: float) -> None:
    assert PositionSpec(ra="a", dec="b", epoch=given).epoch == year


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("B1950", "Besselian epoch; write a Julian one"),
        ("MJD51544", "no epoch; write a Julian year"),
        ("2000-01-01", "no epoch; write a Julian year"),
        ("J1700", "1800"),
        ("J20000", "no epoch"),
        ("", "no epoch"),
    ],
)
def test_other_epochs_are_refused(given: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PositionSpec(ra="a", dec="b", epoch=given)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=f"^epoch: .*{message}"):
        match_options(radius_arcsec=1, epoch=given)
