"""The description of the columns of a HiPS, read by astropy, and its properties."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from astropy.io import votable
from hipslake.exports.hips.hips_files import (
    HipsProperties,
    columns_file,
    hips_list,
    properties_text,
    view_of,
)
from hipslake.exports.moc_encoding import moc_fits
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.pixels import Pixel
from mocpy import MOC

POSITION = [
    pa.field("ra", pa.float64(), metadata={"unit": "rad", "ucd": "pos.eq.ra"}),
    pa.field("dec", pa.float64()),
]


def described(*fields: pa.Field, description: str = "") -> votable.tree.TableElement:
    data = columns_file(pa.schema([*POSITION, *fields]), ("ra", "dec"), "stars", description)
    return votable.parse(io.BytesIO(data)).get_first_table()


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"unit": "mag", "ucd": "phot.mag;em.opt.G", "description": "G < 21 & é"}, None),
        (
            {"unit": "no such unit", "ucd": "no such; ucd", "description": "line\nend"},
            {"description": "line end"},
        ),
        ({"ucd": "pos.eq.ra;meta.main"}, {"ucd": "pos.eq.ra"}),
        ({"unit": "", "ucd": "", "description": ""}, {}),
        ({"description": "a\x00b\ud7ff\uffff"}, {"description": "a b\ud7ff "}),
    ],
)
def test_units_ucds_and_descriptions(told: dict[str, str], found: dict[str, str] | None) -> None:
    field = described(pa.field("x<&>", pa.float32(), metadata=told)).fields[2]
    expected = {
        key: value for key, value in (told if found is None else told | found).items() if value.strip()
    }
    assert field.name == "x<&>"
    read = {"unit": field.unit and str(field.unit), "ucd": field.ucd, "description": field.description}
    assert {key: value for key, value in read.items() if value} == {
        key: value.strip() for key, value in expected.items()
    }


def test_the_position_is_the_main_one_in_icrs_degrees() -> None:
    table = described(description="all stars\nof the sky")
    assert [(each.name, str(each.unit), each.ucd, each.ref) for each in table.fields] == [
        ("ra", "deg", "pos.eq.ra;meta.main", "ICRS"),
        ("dec", "deg", "pos.eq.dec;meta.main", "ICRS"),
    ]
    assert table.description == "all stars of the sky"
    assert len(table.array) == 0


def test_properties_are_a_line_each() -> None:
    told = HipsProperties(
        creator_did="ivo://survey.org/x",
        name="stars",
        title="a title\nof more than " + "very " * 30 + "many words",
        description="several\r\nlines = of text",
        attribution="",
        origin="catalog stars, version 3",
        rule="by chance",
        status="private master clonableOnce",
        created=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        deepest=3,
        rows=5,
        tiles=2,
        bytes=1025,
        sky_fraction=0.25,
        view=(1.0, -2.0, 3.0),
    )
    lines = properties_text(told.fields()).splitlines()
    read = dict(line.split("=", 1) for line in lines)
    found = {key.strip(): value.strip() for key, value in read.items()}
    assert found["obs_description"] == "several lines = of text"
    assert len(found["obs_title"]) <= 80
    assert found["hips_release_date"] == "2026-01-02T03:04Z"
    assert found["hips_estsize"] == "2"
    assert "obs_copyright" not in found
    assert hips_list(told.fields(), "https://example.org/x").splitlines()[:-1] == lines


@pytest.mark.parametrize("order", [0, 5, 10, 29])
def test_the_coverage_is_what_mocpy_reads(order: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(order)
    pixels = np.unique(rng.integers(0, 12 << (2 * order), 40))
    data = moc_fits(Intervals.of((order, int(each)) for each in pixels), order)
    (tmp_path / "Moc.fits").write_bytes(data)
    moc = MOC.load(tmp_path / "Moc.fits", format="fits")
    assert moc.max_order == order
    assert sorted(moc.flatten().tolist()) == pixels.tolist()


@pytest.mark.parametrize("pixel", [Pixel(0, 4), Pixel(3, 77), Pixel(8, 500_000), Pixel(12, 100)])
def test_the_first_view_holds_the_pixels(pixel: Pixel) -> None:
    import healpy
    from astropy.coordinates import SkyCoord

    start, stop = (np.array([edge]) for edge in pixel.interval)
    ra, dec, width = view_of(start, stop)
    corners = healpy.boundaries(2**pixel.order, pixel.npix, nest=True)
    lon, lat = healpy.vec2ang(corners.T, lonlat=True)
    apart = SkyCoord(ra, dec, unit="deg").separation(SkyCoord(lon, lat, unit="deg")).deg
    assert apart.max() <= width / 2 <= 4 * apart.max()


def test_the_view_of_the_whole_sky_and_of_nothing() -> None:
    whole = np.arange(12) << 58, np.arange(1, 13) << 58
    assert view_of(*whole) == view_of(np.empty(0, np.int64), np.empty(0, np.int64)) == (0.0, 0.0, 180.0)
