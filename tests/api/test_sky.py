"""Coverage, maps and what a notebook shows."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import healpy
import numpy as np
import pytest
from astropy.coordinates import SkyCoord
from hipslake import Catalog
from hipslake.errors import CatalogFormatError, SpecError
from hipslake.sphere.regions import Moc, parse_region
from mocpy import MOC

from tests.api.catalogs import publish_many_kinds
from tests.catalog.publishing import Published
from tests.steps.nights import Survey


def pixels_by_healpy(published: Published, order: int) -> MOC:
    npix = np.unique(healpy.ang2pix(2**order, *published.degrees, nest=True, lonlat=True))
    return MOC.from_healpix_cells(npix.astype(np.uint64), np.full(len(npix), order, np.uint8), order)


def same(one: MOC, other: MOC) -> bool:
    """Whether two MOCs are the same sky, whatever order they are said to have."""
    return np.array_equal(one.to_depth29_ranges, other.to_depth29_ranges)


@pytest.mark.parametrize("order", [0, 1, 3, 8, 9, 13, 29])
def test_coverage_is_the_pixels_that_hold_rows(published: Published, catalog: Catalog, order: int) -> None:
    found = catalog.coverage(order)
    assert same(found.to_mocpy(), pixels_by_healpy(published, order))
    assert found.to_mocpy().max_order <= order
    assert parse_region(str(found)).cover().intervals == found.intervals  # type: ignore[union-attr]
    assert np.isclose(found.sky_fraction, found.to_mocpy().sky_fraction)


def test_coverage_up_to_order_8_opens_no_leaf_and_is_a_region_of_reads(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats", seed=5)
    catalog = Catalog.open(published.storage.uri())
    moc = catalog.coverage(9)
    for region in (moc, str(moc), moc.to_mocpy()):
        assert catalog.read(["id"], region=region).num_rows == 2500
    half = moc.to_mocpy().intersection(MOC.from_string("2/0-95"))
    inside = half.contains_skycoords(SkyCoord(*published.degrees, unit="deg"))
    assert catalog.read(["id"], region=half).num_rows == inside.sum() > 100
    for path in catalog.metadata.partitions("main", published.storage)["path"].to_pylist():
        published.storage.delete(path)
    assert same(catalog.coverage(8).to_mocpy(), pixels_by_healpy(published, 8))
    leaves = catalog.coverage()
    assert leaves.intervals.sky_fraction == sum(0.25**pixel.order for pixel in catalog.pixels) / 12
    assert isinstance(leaves, Moc)


def test_coverage_of_nights_is_that_of_all_of_them(tmp_path: Path) -> None:
    survey = Survey(tmp_path, threshold="100 rows")
    for number in range(2):
        survey.night(number, rows=200)
    catalog = survey.catalog
    assert len(catalog.increments) == 2
    rows = catalog.read(["_healpix_29"])["_healpix_29"].to_numpy()
    for order in (2, 8, 11):
        npix = np.unique(rows >> (2 * (29 - order)))
        cells = MOC.from_healpix_cells(npix.astype(np.uint64), np.full(len(npix), order, np.uint8), order)
        assert same(catalog.coverage(order).to_mocpy(), cells)


def test_orders_that_there_are_not(catalog: Catalog) -> None:
    for order in (-1, 30):
        with pytest.raises(SpecError, match=f"order is {order}"):
            catalog.coverage(order)
    with pytest.raises(SpecError, match="counted at orders 0 to 8"):
        catalog.plot(order=9)


def image_of(axes: Any) -> np.ma.MaskedArray[Any, Any]:
    (image,) = axes.images
    shown: np.ma.MaskedArray[Any, Any] = image.get_array()
    return shown


def test_the_map_shows_rows_per_square_degree(published: Published, catalog: Catalog) -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    assert catalog.plot(axes, order=2) is axes
    image = image_of(axes)
    counts = np.bincount(healpy.ang2pix(4, *published.degrees, nest=True, lonlat=True), minlength=192)
    density = counts / (41252.96125 / 192)
    # Pixels of the map, back to the sky, by the formula of the projection.
    height, width = image.shape
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, height, 4000), rng.integers(0, width, 4000)
    y, x = 1 - (rows + 0.5) / height * 2, (columns + 0.5) / width * 4 - 2
    theta = np.arcsin(y)
    with np.errstate(invalid="ignore"):
        dec = np.degrees(np.arcsin((2 * theta + np.sin(2 * theta)) / np.pi))
        lon = -np.degrees(np.pi * x / (2 * np.cos(theta)))
    on_sky = np.abs(lon) <= 180
    npix = healpy.ang2pix(4, lon[on_sky] % 360, dec[on_sky], nest=True, lonlat=True)
    found = image.filled(0)[rows, columns]
    assert np.all(found[~on_sky] == 0)
    assert np.isclose(found[on_sky], density[npix], rtol=1e-6).mean() > 0.999
    assert "2,500 rows" in axes.get_title()
    assert "rows per square degree" in axes.figure.axes[1].get_xlabel()
    assert image_of(axes).mask.any()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("projection", ["mollweide", "aitoff", "hammer"])
def test_axes_of_a_projection_of_the_sky_keep_it(
    published: Published, catalog: Catalog, projection: str
) -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot(projection=projection)
    assert catalog.plot(axes, order=1, cmap="viridis").name == projection
    (mesh,) = axes.collections
    shown = mesh.get_array()
    counts = np.bincount(healpy.ang2pix(2, *published.degrees, nest=True, lonlat=True), minlength=48)
    assert np.isclose(shown.max(), counts.max() / (41252.96125 / 48))
    height, width = shown.shape
    east = (width // 2) - width // 8  # a quarter of the way left of the middle is ra 45
    dec = (np.arange(height) + 0.5) / height * 180 - 90
    npix = healpy.ang2pix(2, np.full(height, 45 - 180 / width), dec, nest=True, lonlat=True)
    near = np.isclose(shown.filled(0)[:, east], counts[npix] / (41252.96125 / 48))
    assert near.mean() > 0.95


@pytest.mark.sampled(3)
def test_a_map_of_few_rows_is_coarse_and_one_of_none_is_empty(catalog: Catalog) -> None:
    from matplotlib.figure import Figure

    axes = Figure().add_subplot()
    catalog.plot(axes)
    assert len(np.unique(image_of(axes).compressed())) > 3
    catalog.plot(Figure().add_subplot(), vmin=1, vmax=2)


@pytest.mark.sampled(2)
def test_a_notebook_shows_map_columns_and_versions(catalog: Catalog) -> None:
    shown = catalog._repr_html_()
    picture = re.search(r'src="data:image/png;base64,([A-Za-z0-9+/=]+)"', shown)
    assert picture
    png = base64.b64decode(picture[1])
    assert png.startswith(b"\x89PNG")
    assert len(png) > 5000
    for told in (
        "stars",
        "version 1",
        "rows 2,500",
        "magnitude &lt;G&gt; &amp; more",
        "phot.mag;em.opt",
        "1 (this one)",
    ):
        assert told in shown
    for name in catalog.schema.names:
        assert f"<td>{name}</td>" in shown
    assert ("column group" in shown) == (len(catalog.groups) > 1)


def test_html_of_a_catalog_whose_counts_are_damaged_still_tells_the_rest(tmp_path: Path) -> None:
    published = publish_many_kinds(tmp_path, "hats")
    catalog = Catalog.open(published.storage.uri())
    coverage = catalog.increments[0].coverage
    assert coverage is not None
    published.storage.write(coverage.path, b"damaged")
    shown = catalog._repr_html_()
    assert "no map" in shown
    assert "sha256 differs" in shown
    assert "<td>mag</td>" in shown
    with pytest.raises(CatalogFormatError):
        catalog.plot()
