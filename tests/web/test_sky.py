"""The sky of the catalogs page in a real browser, against a server that has nothing but skies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hipslake.sphere.sky_cells import Footprint
from playwright.sync_api import Browser

from tests.web import made_up
from tests.web.browser import PICTURES, Sky, chromium, elsewhere, find_chromium, watched
from tests.web.oracle import DEEP, PROJECTIONS, ROTATIONS, deep_sky, disagreeing, places, shares, whole_sky

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        pytest.skip("there is no chromium; on Debian and Ubuntu, include/setup/setup.sh chromium gets it")
    with chromium(executable) as browser:
        yield browser


@pytest.fixture(scope="module")
def skies() -> dict[str, Footprint]:
    return {
        "few": made_up.split_sky(50, patch=True),
        "many": made_up.split_sky(5000),
        "deep": deep_sky(),
        **{f"order{order}": whole_sky(order) for order in range(5)},
    }


@pytest.fixture(scope="module")
def address(skies: dict[str, Footprint]) -> Iterator[str]:
    with made_up.serving(skies) as address:
        yield address


@pytest.fixture
def sky(browser: Browser) -> Iterator[Sky]:
    sky = watched(browser)
    yield sky
    sky.page.context.close()


@pytest.fixture(scope="module")
def planes(browser: Browser) -> Iterator[Sky]:
    sky = watched(browser)
    yield sky
    sky.page.context.close()


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_the_page_asks_nobody_else_and_fails_nowhere(browser: Browser, address: str, theme: str) -> None:
    sky = watched(browser, theme=theme)
    for name in ("few", "many"):
        sky.show(address, name)
        sky.keep(PICTURES / f"{name}-{theme}.png")
    for projection in ("hammer", "aitoff", "azimuthal", "globe", "mollweide"):
        sky.choose("Projection", projection)
        for centre in ("north", "galactic", "ra0"):
            sky.choose("Centre", centre)
    for colour in ("order", "density", "bytes", "rows"):
        sky.choose("Colour", colour)
    sky.choose("Projection", "azimuthal")
    sky.choose("Centre", "north")
    sky.keep(PICTURES / f"polar-{theme}.png")
    sky.page.keyboard.press("Tab")
    assert sky.errors == []
    assert elsewhere(sky.asked, address) == []
    sky.page.context.close()


@pytest.mark.parametrize("name", ["many", "few", "deep"])
def test_picks_are_the_pixels_that_healpy_finds(
    sky: Sky, address: str, skies: dict[str, Footprint], name: str
) -> None:
    sky.show(address, name)
    at = places(10_000)
    assert disagreeing(sky.picks(at), at, skies[name]) == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("order", range(5))
def test_every_cell_has_its_share_of_the_plane(planes: Sky, address: str, order: int) -> None:
    planes.show(address, f"order{order}")
    for projection in PROJECTIONS:
        for rotation in ROTATIONS.values():
            share = shares(planes.areas(projection, rotation), order)
            assert len(share) == 12 << 2 * order
            assert share.min() > 0.2, (projection, rotation, int(share.argmin()))
            assert share.max() < 3, (projection, rotation, int(share.argmax()))
            assert share.mean() == pytest.approx(1, abs=0.01)


def test_east_is_left_and_north_is_up(sky: Sky, address: str) -> None:
    sky.show(address, "many")
    here, east, north = (screen(sky, *at) for at in ((0, 0), (30, 0), (0, 30)))
    assert east[0] < here[0]
    assert north[1] < here[1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("projection", ["mollweide", "hammer", "aitoff", "azimuthal", "globe"])
def test_a_point_of_the_screen_is_the_position_that_is_drawn_there(
    sky: Sky, address: str, projection: str
) -> None:
    sky.show(address, "many")
    sky.choose("Projection", projection)
    back = sky.page.evaluate(
        """() => {
          const { sky } = document.querySelector(".map");
          const found = [];
          for (let x = 3; x < sky.element.clientWidth; x += 37) {
            for (let y = 3; y < sky.element.clientHeight; y += 31) {
              const pick = sky.pickAt(x, y);
              if (pick) found.push([x, y, ...sky.screen(pick.ra, pick.dec)]);
            }
          }
          return found;
        }"""
    )
    points = np.array(back)
    assert len(points) > 100
    assert np.abs(points[:, :2] - points[:, 2:]).max() < 0.05


@pytest.mark.parametrize("projection", ["mollweide", "azimuthal", "globe"])
def test_outside_of_the_sky_there_is_no_position(sky: Sky, address: str, projection: str) -> None:
    sky.show(address, "many")
    sky.choose("Projection", projection)
    corners = sky.page.evaluate(
        """() => {
          const { sky } = document.querySelector(".map");
          const [right, bottom] = [sky.element.clientWidth - 2, sky.element.clientHeight - 2];
          return [[2, 2], [right, 2], [2, bottom], [right, bottom]].map(([x, y]) => sky.pickAt(x, y));
        }"""
    )
    assert corners == [None] * 4


def test_empty_sky_looks_unlike_the_lowest_density(sky: Sky, address: str) -> None:
    sky.show(address, "few")
    empty = [colour(sky, ra, -70) for ra in range(101, 199, 3)]
    lowest = sky.page.evaluate("document.querySelector('.map').sky.scale.colours[0]")
    light = [found for found in empty if min(found) > 190]
    assert len(light) > 0.8 * len(empty)  # the others are lines of the grid
    assert len(set(light)) > 1  # hatched
    assert lowest == "rgb(68,1,84)"


def test_cells_are_chosen_by_keyboard_and_told(sky: Sky, address: str) -> None:
    sky.show(address, "many")
    page, told = sky.page, sky.page.locator("[aria-live=polite]").first
    page.locator(".front").focus()
    page.keyboard.press("Enter")
    said = [told.inner_text()]
    for keys in ("Shift+ArrowLeft", "Shift+ArrowUp", "n"):
        page.keyboard.press(keys)
        said.append(told.inner_text())
    assert len(set(said)) == len(said)
    assert all("Order" in words and "rows" in words for words in said)
    page.keyboard.press("p")
    assert told.inner_text() == said[-2]
    page.keyboard.press("Escape")
    assert told.inner_text() == "Nothing chosen"


def test_the_map_is_moved_by_keyboard(sky: Sky, address: str) -> None:
    sky.show(address, "many")
    page = sky.page
    page.locator(".front").focus()
    begin = screen(sky, 0, 0)
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert screen(sky, 20, 0)[0] < begin[0] - 100
    page.keyboard.press("ArrowRight")
    assert screen(sky, 0, 0)[0] < begin[0]
    page.keyboard.press("0")
    assert screen(sky, 0, 0) == pytest.approx(begin)


def test_hover_tells_the_cell_below_the_pointer(sky: Sky, address: str) -> None:
    sky.show(address, "deep")
    x, y = screen(sky, *DEEP)
    sky.page.locator(".front").hover(position={"x": x, "y": y})
    assert "Order" in sky.page.locator(".tip").inner_text()
    sky.page.mouse.wheel(0, -4000)
    sky.page.wait_for_function("document.querySelector('.map').sky.transform.k > 100")
    assert "rows" in sky.page.locator(".tip").inner_text()
    sky.page.mouse.click(
        *sky.page.locator(".front").evaluate(
            "(map, [x, y]) => [map.getBoundingClientRect().x + x, map.getBoundingClientRect().y + y]",
            screen(sky, *DEEP),
        )
    )
    assert "Order" in sky.page.locator(".readout").inner_text()


def screen(sky: Sky, ra: float, dec: float) -> list[float]:
    """Where a position is drawn, in pixels of the map."""
    found = sky.page.evaluate("at => document.querySelector('.map').sky.screen(...at)", [ra, dec])
    return [float(part) for part in found]


def colour(sky: Sky, ra: float, dec: float) -> tuple[int, int, int]:
    """The colour that a position is drawn in."""
    x, y = screen(sky, ra, dec)
    data = sky.page.evaluate(
        "([x, y]) => [...document.querySelector('.ground').getContext('2d').getImageData(x, y, 1, 1).data]",
        [round(x), round(y)],
    )
    return tuple(data[:3])
