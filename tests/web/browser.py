"""A headless Chromium that knows no host but this machine, and what to measure in the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.airflow_home import PROJECT

PICTURES = Path(os.environ.get("HIPSLAKE_ARTEFACTS") or PROJECT / "build") / "screenshots"
"""Where pictures of the page are kept, for people to look at."""

_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
_PATIENCE = 180_000  # milliseconds: machines are shared
# Notes when the sky was on the screen, in milliseconds since the page was asked for.
_WATCH = """
window.readyAt = new Promise((done, fail) => {
  const look = () => {
    if (document.querySelector("[data-ready]")) {
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
    } else if (document.querySelector(".problem")) {
      fail(new Error(document.querySelector(".problem").textContent));
    } else requestAnimationFrame(look);
  };
  look();
});
"""
_DRAG = """
async ([frames, step]) => {
  const map = document.querySelector(".front");
  const box = map.getBoundingClientRect();
  const at = { x: box.left + box.width / 2, y: box.top + box.height / 2 };
  const send = (name, to) => to.dispatchEvent(new MouseEvent(name, {
    bubbles: true, cancelable: true, view: window, clientX: at.x, clientY: at.y, buttons: 1,
  }));
  const next = () => new Promise((done) => requestAnimationFrame(done));
  send("mousedown", map);
  const took = [];
  let before = await next();
  for (let frame = 0; frame < frames; frame++) {
    at.x += frame % 20 < 10 ? step : -step;
    at.y += frame % 14 < 7 ? step : -step;
    send("mousemove", window);
    const now = await next();
    took.push(now - before);
    before = now;
  }
  send("mouseup", window);
  return took;
}
"""
_HOVER = """
(count) => {
  const map = document.querySelector(".front");
  const took = [];
  for (let at = 0; at < count; at++) {
    const event = new PointerEvent("pointermove", {
      bubbles: true,
      clientX: map.getBoundingClientRect().left + ((at * 7919) % map.clientWidth),
      clientY: map.getBoundingClientRect().top + ((at * 104729) % map.clientHeight),
    });
    const begin = performance.now();
    map.dispatchEvent(event);
    took.push(performance.now() - begin);
  }
  return took;
}
"""
_PICKS = """
(places) => {
  const { sky } = document.querySelector(".map");
  return places.map(([ra, dec]) => {
    const { cells, at } = sky.pick(ra, dec);
    return at < 0 ? [-1, -1] : [cells.columns.order[at], cells.columns.npix[at]];
  });
}
"""
_AREAS = """
([projection, rotation]) => {
  const { sky } = document.querySelector(".map");
  const { xy, ringStart, cellStart } = sky.shapesUnder(projection, rotation);
  const areas = [];
  for (let cell = 0; cell + 1 < cellStart.length; cell++) {
    let area = 0;
    for (let ring = cellStart[cell]; ring < cellStart[cell + 1]; ring++) {
      const [first, last] = [ringStart[ring], ringStart[ring + 1]];
      for (let at = first, before = last - 1; at < last; before = at++) {
        area += (xy[2 * before] * xy[2 * at + 1] - xy[2 * at] * xy[2 * before + 1]) / 2;
      }
    }
    areas.push(Math.abs(area));
  }
  return areas;
}
"""


def find_chromium() -> str | None:
    """The browser of this machine; `HIPSLAKE_CHROMIUM` names another."""
    return os.environ.get("HIPSLAKE_CHROMIUM") or shutil.which("chromium")


@dataclass
class Sky:
    """The page in a browser, and what went wrong in it."""

    page: Page
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def show(self, address: str, name: str) -> float:
        """Open a catalog; milliseconds until its sky is on the screen.

        An error if the page shows a problem instead.
        """
        self.page.goto("about:blank")
        self.page.goto(f"{address}#/{name}")
        return float(self.page.evaluate("window.readyAt"))

    def drag(self, frames: int = 60) -> list[float]:
        """Milliseconds from frame to frame while the sky is dragged."""
        return list(self.page.evaluate(_DRAG, [frames, 6]))

    def hover(self, count: int = 300) -> list[float]:
        """Milliseconds that the page takes for the pointer at so many places."""
        return list(self.page.evaluate(_HOVER, count))

    def picks(self, places: list[list[float]]) -> list[list[int]]:
        """Order and number of the cells that the page finds at positions in degrees; -1 where none."""
        return list(self.page.evaluate(_PICKS, places))

    def areas(self, projection: str, rotation: tuple[float, float, float]) -> list[float]:
        """Areas of all cells on the plane of a projection."""
        return list(self.page.evaluate(_AREAS, [projection, list(rotation)]))

    def choose(self, label: str, option: str) -> None:
        """Choose an option of the map, such as the projection."""
        self.page.locator(f"label.choice:has(span:text-is('{label}')) select").select_option(option)

    def keep(self, path: Path) -> None:
        """Keep a picture."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.wait_for_timeout(150)
        self.page.screenshot(path=path)


@contextmanager
def chromium(executable: str) -> Iterator[Browser]:
    """The browser, closed at the end."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(_ARGUMENTS))
        yield browser
        browser.close()


def watched(browser: Browser, *, theme: Any = "light", width: int = 1280, height: int = 900) -> Sky:
    """A new window; what is asked for and what fails in it is noted."""
    page = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme).new_page()
    page.set_default_timeout(_PATIENCE)
    page.add_init_script(_WATCH)
    sky = Sky(page)
    page.on("request", lambda request: sky.asked.append(request.url))
    page.on("pageerror", lambda error: sky.errors.append(str(error)))
    page.on("console", lambda said: sky.errors.append(said.text) if said.type == "error" else None)
    return sky


def elsewhere(asked: list[str], address: str) -> list[str]:
    """What was asked of anybody but the server at an address."""
    return [url for url in asked if not url.startswith((address, "about:", "data:", "blob:"))]
