"""The image of the density in a real browser: at every pixel of the screen, what healpy counts there."""

from __future__ import annotations

from collections.abc import Iterator

import healpy
import numpy as np
import pytest
from hipslake.sphere.sky_cells import Footprint
from playwright.sync_api import Browser

from tests.web import made_up
from tests.web.browser import Sky, chromium, find_chromium, watched
from tests.web.oracle import whole_sky

pytestmark = [pytest.mark.system, pytest.mark.sampled(2)]

ORDER = 5  # of the pixels that have counts of their own
# Values of the image at pixels of the screen, with the positions of their middles and around them.
_IMAGE = """
([count, seed]) => {
  const { sky } = document.querySelector(".map");
  const { values, width, height } = sky.raster;
  const { shrunk } = sky.picture; // pixels of the screen for each of the image
  const found = [];
  let state = seed;
  const next = (most) => (state = (state * 48271) % 2147483647) % most;
  for (let at = 0; at < count; at++) {
    const [x, y] = [next(Math.floor(width)), next(Math.floor(height))];
    const around = [[0.5, 0.5], [-0.1, -0.1], [1.1, -0.1], [-0.1, 1.1], [1.1, 1.1]];
    const places = around.map(([right, down]) => sky.pickAt(shrunk * (x + right), shrunk * (y + down)));
    if (places.every((place) => place)) {
      found.push([...places.flatMap(({ ra, dec }) => [ra, dec]), values[y * Math.ceil(width) + x]]);
    }
  }
  return found;
}
"""
_SETTLED = """
() => {
  const { sky } = document.querySelector(".map");
  return new Promise((done) => {
    let last = null;
    const look = () => {
      const now = sky.raster && sky.raster.values;
      if (now && now === last) {
        if (sky.picture.shrunk > 1) { // a picture took long, as on a busy machine: all pixels of it, too
          sky.slowness = 0;
          sky.picture = null;
          sky.paintImage();
        }
        done(true);
      } else {
        last = now;
        setTimeout(look, 400);
      }
    };
    look();
  });
}
"""


@pytest.fixture(scope="module")
def noise() -> Footprint:
    """Every pixel of an order, with many or few rows."""
    sky = whole_sky(ORDER)
    rows = (
        np.random.default_rng(3).integers(1, 200, len(sky.start)) << 18
    )  # so that a finer one has whole ones
    rows[::7] = 0
    return sky._replace(rows=rows)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        pytest.skip("there is no chromium; on Debian and Ubuntu, include/setup/setup.sh chromium gets it")
    with chromium(executable) as browser:
        yield browser


@pytest.fixture(scope="module")
def sky(browser: Browser, noise: Footprint) -> Iterator[Sky]:
    with made_up.serving({"noise": noise}) as address:
        sky = watched(browser, width=1000, height=800)
        sky.show(address, "noise")
        yield sky
        sky.page.context.close()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("view", [None, (56.75, 24.1, 14), (0.0, 89.5, 30), (359.99, -41.8, 200)])
@pytest.mark.parametrize("projection", ["mollweide", "hammer", "aitoff", "azimuthal", "globe"])
def test_every_pixel_of_the_screen_has_the_density_there(
    sky: Sky, noise: Footprint, projection: str, view: tuple[float, float, float] | None
) -> None:
    sky.choose("Projection", projection)
    if view is not None:
        sky.page.evaluate("at => document.querySelector('.map').sky.lookAt(...at)", list(view))
    sky.page.wait_for_timeout(250)
    sky.page.evaluate(_SETTLED)
    told = np.array(sky.page.evaluate(_IMAGE, [4000, 7]))
    assert len(told) > 1000
    places, value = told[:, :-1].reshape(len(told), -1, 2), told[:, -1]
    assert (value >= 0).mean() > 0.999  # the edge of the sky itself
    places, value = places[value >= 0], value[value >= 0]
    wanted = rows_per_area(noise, places[..., 0], places[..., 1])
    agrees = np.isclose(wanted, value[:, None], rtol=1e-3)
    inside = (wanted == wanted[:, :1]).all(axis=1)  # the edge of no pixel is near
    assert inside.sum() > 100
    assert agrees[inside, 0].all()
    assert agrees.any(axis=1).mean() > 0.995  # more than two pixels may meet


def rows_per_area(sky: Footprint, ra: np.ndarray, dec: np.ndarray) -> np.ndarray:
    """Rows per square degree at positions, as healpy has it."""
    rows = sky.rows[healpy.ang2pix(1 << ORDER, ra, dec, nest=True, lonlat=True)]
    return np.asarray(rows / healpy.nside2pixarea(1 << ORDER, degrees=True))
