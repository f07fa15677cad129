"""Rows per pixel are those that healpy counts, whichever way they are found."""

from __future__ import annotations

from pathlib import Path

import healpy
import numpy as np
import pytest
from hipslake.catalog import density as module
from hipslake.catalog.comparing import footprint
from hipslake.catalog.density import counted_density, density, density_of_leaves, density_of_map, sky_map
from hipslake.catalog.hats.point_map import PointMap
from hipslake.errors import VerificationError
from hipslake.sphere.pixels import Pixel

from tests.catalog.publishing import Published, publish

SHAPES = [
    {"rows": 3000},
    {"rows": 3000, "layout": "hipscat"},
    {"rows": 2500, "cap": 0.5, "threshold": "100 rows"},
    {"rows": 1},
]


def counts_of(published: Published, order: int, pixel: Pixel | None) -> np.ndarray:
    """Rows per pixel, by healpy."""
    at = healpy.ang2pix(1 << order, *published.degrees, nest=True, lonlat=True)
    every = np.bincount(at, minlength=12 << 2 * order)
    if pixel is None:
        return every
    deeper = 2 * (order - pixel.order)
    return every[pixel.npix << deeper : (pixel.npix + 1) << deeper]


def asked(published: Published, seed: int) -> list[tuple[int, Pixel | None]]:
    """Orders and pixels: the whole sky, pixels with rows, and pixels without."""
    rng = np.random.default_rng(seed)
    found: list[tuple[int, Pixel | None]] = [(order, None) for order in range(10)]
    ra, dec = published.degrees
    for _ in range(8):
        order = int(rng.integers(0, 9))
        row = rng.integers(len(ra))
        npix = int(healpy.ang2pix(1 << order, ra[row], dec[row], nest=True, lonlat=True))
        found.append((order + int(rng.integers(0, 11 - order)), Pixel(order, npix)))
        found.append((order + 2, Pixel(order, int(rng.integers(0, 12 << 2 * order)))))
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_way_gives_the_counts_of_healpy(tmp_path: Path, shape: dict[str, object]) -> None:
    published = publish(tmp_path, **shape)
    storage, metadata, *_ = published
    counted, leaves = sky_map(storage, metadata), footprint(storage, metadata.groups[0])
    assert counted is not None
    ways = set()
    for order, pixel in asked(published, seed=3):
        expected = counts_of(published, order, pixel)
        by_rows = counted_density(storage, metadata, order, pixel)
        assert by_rows is not None
        assert (by_rows.counts == expected).all()
        by_map, by_leaves = (
            density_of_map(counted, order, pixel),
            density_of_leaves(leaves, order, pixel),
        )
        assert (by_map is None) == (order > counted.order)
        if by_map is not None:
            ways.add("map")
            assert (by_map.counts == expected).all()
        if by_leaves.exact:
            ways.add("leaves")
            assert (by_leaves.counts == expected).all()
        for source in (counted, None):
            found = density(storage, metadata, source, leaves, order, pixel)
            assert (found.order, found.exact) == (order, True)
            assert (found.counts == expected).all()
    assert "map" in ways


def test_rows_that_are_spread_stay_as_many(tmp_path: Path) -> None:
    published = publish(tmp_path, rows=2000, threshold="400 rows")
    leaves = footprint(published.storage, published.metadata.groups[0])
    spread = density_of_leaves(leaves, 7, None)
    assert not spread.exact
    assert spread.counts.sum() == pytest.approx(2000)
    for order in range(int(leaves.order.max()), 0, -1):
        up = spread.counts.reshape(12 << 2 * order, -1).sum(axis=1)
        sure = leaves.start[leaves.order == order] >> 2 * (29 - order)
        assert up[sure] == pytest.approx(counts_of(published, order, None)[sure])


def test_where_counting_would_read_too_much_the_map_or_the_leaves_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish(tmp_path, rows=3000)
    storage, metadata, *_ = published
    counted, leaves = sky_map(storage, metadata), footprint(storage, metadata.groups[0])
    assert counted is not None
    for limit in ("MOST_COUNTED", "MOST_FILES"):
        with monkeypatch.context() as patch:
            patch.setattr(module, limit, 1)
            assert counted_density(storage, metadata, 9, None) is None
            coarse = density(storage, metadata, counted, leaves, 9, None)
            assert (coarse.order, coarse.exact) == (counted.order, True)
            assert (coarse.counts == counts_of(published, counted.order, None)).all()
            spread = density(storage, metadata, None, leaves, 9, None)
            assert (spread.order, spread.exact) == (9, False)


def test_a_map_that_does_not_tell_of_all_rows_is_not_taken(tmp_path: Path) -> None:
    storage, metadata, *_ = publish(tmp_path, rows=300)
    path = f"{metadata.write_id}/main/point_map.fits"
    wrong = PointMap(2, np.array([3]), np.array([299]))
    storage.write(path, wrong.to_fits())
    found = sky_map(storage, metadata)
    assert found is None or found.rows.sum() == 300
    storage.write(path, b"no FITS")
    found = sky_map(storage, metadata)
    assert found is None or found.rows.sum() == 300


@pytest.mark.parametrize("damage", [None, b"no Parquet"])
def test_without_what_was_counted_when_rows_came_the_leaves_tell(
    tmp_path: Path, damage: bytes | None
) -> None:
    published = publish(tmp_path, rows=300, layout="hipscat")
    storage, metadata, *_ = published
    coverage = metadata.increments[0].coverage
    assert coverage is not None
    assert sky_map(storage, metadata) is not None
    storage.delete(coverage.path)
    if damage is not None:
        storage.write(coverage.path, damage)
    assert sky_map(storage, metadata) is None
    found = density(storage, metadata, None, footprint(storage, metadata.groups[0]), 6)
    assert (found.counts == counts_of(published, 6, None)).all()


def test_a_leaf_that_is_gone_is_told(tmp_path: Path) -> None:
    storage, metadata, *_ = publish(tmp_path, rows=300)
    path = metadata.partitions(None, storage)["path"][0].as_py()
    storage.delete(path)
    with pytest.raises(VerificationError, match="is missing"):
        counted_density(storage, metadata, 9, None)
