"""The sky map: its projection, what it paints where, and the picture."""

from __future__ import annotations

import io
from pathlib import Path

import healpy
import matplotlib.image
import numpy as np
import pyarrow as pa
import pytest
from astropy.wcs import WCS
from hipslake import Catalog, ingest
from hipslake.catalog.hats.pixel_image import PixelImage
from hipslake.catalog.hats.skymap import (
    OFF_SKY,
    _halved,
    draw_skymap,
    forward,
    inverse,
    paint,
    shows_the_same,
    write_skymap,
)
from hipslake.catalog.layouts import skymap_path
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata
from hipslake.specs.threshold import Threshold
from hipslake.sphere.pixel_tree import PixelTree
from hipslake.storage.folder import Storage
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tests.catalog.little import WRITE, sky, write_little


def mollweide_wcs(center: float) -> WCS:
    """The same projection by WCSLIB: degrees in the plane, ra growing to the left."""
    wcs = WCS(naxis=2)
    wcs.wcs.ctype = ["RA---MOL", "DEC--MOL"]
    wcs.wcs.crval = [center, 0.0]
    wcs.wcs.cdelt = [-1.0, 1.0]
    wcs.wcs.crpix = [0.0, 0.0]
    return wcs


@pytest.mark.parametrize("center", [0.0, 120.0])
def test_projection_agrees_with_wcslib(center: float) -> None:
    ra, dec = np.meshgrid(np.arange(1.0, 360.0, 7.0), np.linspace(-89.9, 89.9, 61))
    x, y = forward(ra, dec, center=center)
    expected = mollweide_wcs(center).all_world2pix(ra.ravel(), dec.ravel(), 1)
    unit = np.degrees(np.sqrt(2.0))  # WCSLIB keeps areas; its half axes are 2 and 1 times this
    np.testing.assert_allclose(x.ravel() * unit, expected[0], atol=1e-6)
    np.testing.assert_allclose(y.ravel() * unit, expected[1], atol=1e-6)
    back = inverse(x, y, center=center)
    np.testing.assert_allclose(back[0], ra, atol=1e-6)
    np.testing.assert_allclose(back[1], dec, atol=1e-6)


def test_poles_project_to_the_ends_and_the_outside_is_no_position() -> None:
    x, y = forward([0.0, 10.0], [90.0, -90.0])
    np.testing.assert_allclose(y, [1.0, -1.0], atol=1e-9)
    np.testing.assert_allclose(x, 0.0, atol=1e-4)
    assert np.isnan(inverse(1.9, 0.9)).all()


def test_right_ascension_grows_to_the_left() -> None:
    x, _ = forward([30.0, 330.0], [0.0, 0.0])
    assert x[0] < 0 < x[1]


def test_every_leaf_is_painted_where_healpy_says_it_is() -> None:
    order = np.array([0, 1, 1, 2, 3, 3])
    npix = np.array([3, 0, 27, 100, 500, 501])
    tree = PixelTree(order, npix)
    leaf, _ = paint(tree, 800)
    for at, pixel in enumerate(tree):
        ra, dec = healpy.pix2ang(1 << pixel.order, pixel.npix, nest=True, lonlat=True)
        x, y = forward(ra, dec)
        assert leaf[int((1 - y) * 200), int((x + 2) * 200)] == at
    on_sky = leaf != OFF_SKY
    assert on_sky.mean() == pytest.approx(np.pi / 4, rel=2e-3)
    # Mollweide keeps areas: each leaf has its share of the map.
    for at, pixel in enumerate(tree):
        assert (leaf == at).sum() / on_sky.sum() == pytest.approx(1 / (12 * 4**pixel.order), rel=0.12)


def test_leaves_of_few_pixels_get_no_edges_that_would_hide_them() -> None:
    coarse, fine = (PixelTree(np.full(12 * 4**k, k), np.arange(12 * 4**k)) for k in (1, 7))
    assert paint(coarse, 800)[1].max() == 1.0
    assert paint(fine, 800)[1].max() == 0.0


def test_picture_is_a_png_beside_the_group_and_the_same_each_time(tmp_path: Path) -> None:
    ra, dec = sky(3000, cap=40.0)
    source = pa.table({"ra": ra, "dec": dec})
    storage = Storage.at(str(tmp_path))
    metadata = write_little(storage, source, (ra, dec), position={"ra": "ra", "dec": "dec"}, layout="hipscat")
    path = write_skymap(storage, metadata)
    assert path == f"{WRITE}/_skymaps/main.png"
    data = storage.read(path)
    assert draw_skymap(metadata, metadata.groups[0], metadata.partitions(None, storage)) == data
    picture = matplotlib.image.imread(io.BytesIO(data))
    height, width = picture.shape[:2]
    assert (width, height) == (1800, 1125)
    north = picture[int(0.13 * height), width // 2, :3]
    south = picture[int(0.7 * height), int(0.52 * width), :3]
    assert np.ptp(north) > 0.2  # coloured
    assert np.ptp(south) < 0.1  # the grey of empty sky


@pytest.mark.parametrize(("left", "bottom"), [(0, 0), (13, 40), (120, 3)])
def test_pixels_are_drawn_where_matplotlib_draws_them(left: int, bottom: int) -> None:
    pixels = np.random.default_rng(left).integers(0, 256, (50, 90, 4), np.uint8)
    pixels[..., 3] = 255
    drawn = []
    for ours in (True, False):
        figure = Figure(figsize=(3, 2), dpi=100)
        canvas = FigureCanvasAgg(figure)
        if ours:
            everywhere = Rectangle((0, 0), 1, 1, transform=figure.transFigure)
            figure.add_artist(PixelImage(pixels, left, bottom, everywhere))
        else:
            figure.figimage(pixels, left, bottom, origin="upper")
        canvas.draw()
        drawn.append(np.asarray(canvas.buffer_rgba()).astype(int))
    assert np.abs(drawn[0] - drawn[1]).max() <= 1
    assert (drawn[0][200 - bottom - 50 : 200 - bottom, left : left + 90] == pixels).all()


def test_four_pixels_become_their_mean() -> None:
    colours = np.random.default_rng(5).integers(0, 1 << 32, (40, 60), np.uint32)
    told = _halved(colours).view(np.uint8).reshape(20, 30, 4).astype(float)
    mean = colours.view(np.uint8).reshape(20, 2, 30, 2, 4).mean(axis=(1, 3))
    assert (told <= mean).all()
    assert (mean - told <= 1.0).all()  # rounded down, twice


def positions_only(
    place: Path, ra: np.ndarray, dec: np.ndarray, **fields: str
) -> tuple[Storage, CatalogMetadata]:
    """A catalog without further columns."""
    storage, source = Storage.at(str(place)), pa.table({"ra": ra, "dec": dec})
    position = {"ra": "ra", "dec": "dec"}
    return storage, write_little(storage, source, (ra, dec), position=position, **fields)


def test_a_catalog_that_covers_little_gets_a_ring(tmp_path: Path) -> None:
    ra, dec = 10.0 + np.arange(4) / 100, np.full(4, 45.0)
    storage, metadata = positions_only(tmp_path, ra, dec, threshold="1 rows")
    group, table = metadata.groups[0], metadata.partitions(None, storage)
    ringed = draw_skymap(metadata, group, table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hipslake.catalog.hats.skymap._SPOT_DEG2", 0.0)
        plain = draw_skymap(metadata, group, table)
    one, other = (matplotlib.image.imread(io.BytesIO(data)) for data in (ringed, plain))
    rows, columns = np.nonzero((one != other).any(axis=2))
    assert 20 < np.ptp(rows) < 100
    assert 20 < np.ptp(columns) < 100


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("threshold", ["1 rows", "1 GiB"])
@pytest.mark.parametrize("layout", ["hats", "hipscat"])
def test_maps_of_one_leaf_and_of_very_many_are_drawn(
    tmp_path: Path, rows: int, threshold: str, layout: str
) -> None:
    ra, dec = sky(rows, cap=180.0)
    storage, metadata = positions_only(tmp_path, ra, dec, layout=layout, threshold=threshold)
    picture = matplotlib.image.imread(io.BytesIO(storage.read(write_skymap(storage, metadata))))
    assert picture.shape[:2] == (1125, 1800)
    assert np.ptp(picture[..., :3], axis=2).max() > 0.2  # some of it is coloured


def test_a_version_of_the_same_leaves_takes_the_picture_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ra, dec = sky(3000)
    stars = pa.table({"id": np.arange(3000), "ra": ra, "dec": dec})
    spec = {"name": "stars", "position": {"ra": "ra", "dec": "dec"}, "threshold": "400 rows"}
    catalog = ingest(stars, spec=spec, warehouse=tmp_path)
    first = _picture(catalog)
    with monkeypatch.context() as patch:
        patch.setattr("hipslake.catalog.hats.skymap.draw_skymap", _not_to_be_drawn)
        catalog = catalog.build_margin(10)
        assert _picture(catalog) == first == draw_skymap(*_drawn_of(catalog))
    Path(catalog.storage.uri(skymap_path(catalog.metadata.write_id, "main"))).write_bytes(first[:1000])
    catalog = catalog.build_margin(20)
    assert _picture(catalog) == first  # drawn, as the one before is no whole picture
    more = ingest(stars.slice(0, 2000), spec=spec, warehouse=tmp_path)
    assert _picture(more) == draw_skymap(*_drawn_of(more)) != first
    assert _picture(more.rollback(1)) == first


def test_pictures_that_would_show_something_else_are_not_taken(tmp_path: Path) -> None:
    ra, dec = sky(3000)
    source = pa.table({"ra": ra, "dec": dec})
    storage = Storage.at(str(tmp_path))
    metadata = write_little(storage, source, (ra, dec), position={"ra": "ra", "dec": "dec"})
    group = metadata.groups[0]
    assert shows_the_same(storage, metadata, metadata, group)
    changes = (
        {"catalog": "other"},
        {"attribution": "who made it"},
        {"groups": (group, group.model_copy(update={"name": "more"}))},
        {"groups": (group.model_copy(update={"name": "other"}),)},
        {"groups": (group.model_copy(update={"threshold": Threshold.model_validate("9 rows")}),)},
    )
    for change in changes:
        assert not shows_the_same(storage, metadata, metadata.model_copy(update=change), group)


def _picture(catalog: Catalog) -> bytes:
    return catalog.storage.read(skymap_path(catalog.metadata.write_id, "main"))


def _drawn_of(catalog: Catalog) -> tuple[CatalogMetadata, GroupMetadata, pa.Table]:
    metadata = catalog.metadata
    return metadata, metadata.group(), metadata.partitions(None, catalog.storage)


def _not_to_be_drawn(*_: object) -> bytes:
    raise AssertionError("this picture is there already")
