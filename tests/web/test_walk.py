"""A walk through the page in a browser: search, density, rows, light curve, file, link, another version."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from playwright.sync_api import Browser, Page

from tests.web.browser import PICTURES, Sky, chromium, elsewhere, find_chromium, watched
from tests.web.walk_server import Walk, walking
from tests.web.walked import CLUSTER, make_warehouse, objects_table

pytestmark = pytest.mark.slow

WANTED = 1_000_123  # an object of the cluster


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("walk")


@pytest.fixture(scope="module")
def walk(airflow: Path, place: Path) -> Iterator[Walk]:
    """The page of the warehouse, behind Airflow's auth manager."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        with walking(*make_warehouse(place)) as walk:
            yield walk
        purge_cached_app()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        pytest.skip("there is no chromium; on Debian and Ubuntu, include/setup/setup.sh chromium gets it")
    with chromium(executable) as browser:
        yield browser


@pytest.fixture(params=["light", "dark"])
def sky(browser: Browser, walk: Walk, request: pytest.FixtureRequest) -> Iterator[Sky]:
    """A window in which somebody has logged in."""
    sky = watched(browser, theme=request.param, width=1600, height=1000)
    cookies = [{"name": name, "value": value, "url": walk.root} for name, value in walk.cookies.items()]
    sky.page.context.add_cookies(cookies)  # type: ignore[arg-type]
    yield sky
    assert sky.errors == []
    assert elsewhere(sky.asked, walk.root) == []
    sky.page.context.close()


@pytest.fixture
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["sky"])


def picture(sky: Sky, name: str, theme: str) -> None:
    sky.keep(PICTURES / f"walk-{name}-{theme}.png")


def drawn(page: Page, rows: int = 1) -> None:
    """Wait until at least so many rows are drawn one by one."""
    page.wait_for_function(
        "wanted => Number(document.querySelector('.map')?.dataset.rows ?? 0) >= wanted", arg=rows
    )


def opened(sky: Sky, walk: Walk, hash_: str) -> Page:
    sky.page.goto("about:blank")
    sky.page.goto(f"{walk.address}#/{hash_}")
    return sky.page


def test_search_density_rows_light_curve_download_link_and_another_version(
    sky: Sky, walk: Walk, place: Path, theme: str
) -> None:
    page = opened(sky, walk, "")
    page.locator("#catalogs a.name", has_text="objects").first.wait_for()
    picture(sky, "list", theme)
    page.get_by_label("Find", exact=True).first.fill("light curve")
    assert page.locator("#catalogs tbody tr").count() == 1
    page.locator("#catalogs a.name").click()

    page.locator(".map[data-painted]").wait_for()
    page.locator(".map[data-ready]").wait_for()
    page.wait_for_timeout(500)
    picture(sky, "density", theme)

    page.locator("input[name=search]").fill(str(WANTED))
    page.locator("form.search button").click()
    page.locator(f".card.row th:text-is('id') + td:text-is('{WANTED}')").wait_for()
    drawn(page)
    page.locator(".curve svg circle").first.wait_for()
    assert page.locator(".curve svg circle").count() == 14
    page.get_by_label("Period to fold at").fill("2.6")
    assert "phase" in (page.locator(".curve svg").text_content() or "")
    picture(sky, "light-curve", theme)

    page.locator("[role=tab]", has_text="Rows").click()
    page.locator("input[name=filters]").fill("mag < 15")
    page.locator("input[name=region]").fill(f"cone {CLUSTER[0]} {CLUSTER[1]} 0.2deg")
    page.get_by_role("button", name="Show", exact=True).first.click()
    page.locator(".rowtable[data-rows] tr[data-key]").first.wait_for()
    wanted = inside(CLUSTER, 0.2, 15)
    page.wait_for_function(
        "n => document.querySelectorAll('tr[data-key]').length === n", arg=min(100, len(wanted))
    )
    with page.expect_download() as download:
        page.locator("button[data-format=parquet]").click()
    got = pq.read_table(io.BytesIO(Path(download.value.path()).read_bytes()))
    assert sorted(got["id"].to_pylist()) == sorted(wanted)
    page.locator(".rowtable").scroll_into_view_if_needed()
    picture(sky, "rows", theme)

    link = page.evaluate("location.href")
    other = watched(sky.page.context.browser, theme=theme, width=1600, height=1000)  # type: ignore[arg-type]
    other.page.context.add_cookies(page.context.cookies())  # type: ignore[arg-type]
    other.page.goto(link)
    other.page.locator(f".card.row th:text-is('id') + td:text-is('{WANTED}')").wait_for()
    other.page.wait_for_function(
        "n => document.querySelectorAll('tr[data-key]').length === n", arg=min(100, len(wanted))
    )
    here, there = (each.evaluate("document.querySelector('.map').sky.looksAt") for each in (page, other.page))
    assert there == pytest.approx(here, rel=1e-4)
    other.page.context.close()

    page = opened(sky, walk, "nights")
    page.locator(".map[data-ready]").wait_for()
    assert "Version 5" in page.locator(".slider output").inner_text()
    page.get_by_role("button", name="The version before").click()
    page.locator("h1 .old", has_text="version 4").wait_for()
    page.locator(".map[data-painted='4']").wait_for()
    assert "version=4" in page.evaluate("location.hash")
    old = Catalog.open(place / "warehouse" / "catalogs" / "nights", version=4)
    assert f"{old.metadata.total_rows:,}" in page.locator("dl.facts").first.inner_text()
    picture(sky, "version", theme)


def test_nights_are_a_calendar_and_lie_on_the_map(sky: Sky, walk: Walk, theme: str) -> None:
    page = opened(sky, walk, "nights?tab=nights")
    page.locator(".night.in").first.wait_for()
    assert page.locator(".weeks .night.missing, .weeks .night.failed, .nights .night.failed").count() >= 1
    page.locator("button.night.in").first.click()
    page.get_by_role("button", name="Show it on the map").click()
    page.locator(".legend", has_text="rows of the night").wait_for()
    picture(sky, "night", theme)
    assert re.search(r"night=\d", page.evaluate("location.hash"))


def test_what_a_version_changed_is_told_apart_by_colours(sky: Sky, walk: Walk, theme: str) -> None:
    page = opened(sky, walk, "nights")
    page.locator(".map[data-ready]").wait_for()
    page.get_by_role("button", name="What version 4 changed").click()
    page.locator(".diff h3", has_text="From version 3 to 4").wait_for()
    page.get_by_role("button", name="What version 5 changed").click()
    page.locator(".legend", has_text="files written anew").wait_for()
    picture(sky, "diff", theme)


def test_versions_tell_what_nights_inserted_updated_and_deleted(sky: Sky, walk: Walk, theme: str) -> None:
    page = opened(sky, walk, "corrected")
    rows = page.locator("table:has(caption:text-is('Versions, newest first'))")
    rows.locator("tbody tr").nth(1).wait_for()
    heads = rows.locator("th").all_inner_texts()
    told = [
        dict(zip(heads, row.locator("td").all_inner_texts(), strict=True))
        for row in rows.locator("tbody tr").all()
    ]
    counts = [tuple(each[head] for head in ("Version", "Inserted", "Updated", "Deleted")) for each in told]
    assert counts == [("2", "7", "10", "3"), ("1", "40", "0", "0")]
    picture(sky, "corrected", theme)
    page.get_by_role("button", name="What version 2 changed").click()
    page.locator(".diff li", has_text="17 rows: 7 inserted, 10 updated, 3 deleted").wait_for()
    page = opened(sky, walk, "nights")
    rows.locator("tbody tr").nth(4).wait_for()
    at = rows.locator("th").all_inner_texts().index("Rows replaced")
    replaced = [row.locator("td").nth(at).inner_text() for row in rows.locator("tbody tr").all()]
    assert [text.isdecimal() or "," in text for text in replaced] == [True, False, False, False, False]


def test_pairs_of_a_match_are_joined_by_lines(sky: Sky, walk: Walk, theme: str) -> None:
    page = opened(sky, walk, f"objects_x_nights?at={CLUSTER[0]},{CLUSTER[1]},1500&by=mag")
    drawn(page)
    page.wait_for_function("() => document.querySelector('.map').sky.segments.length > 0")
    picture(sky, "match", theme)


def test_columns_have_statistics(sky: Sky, walk: Walk, theme: str) -> None:
    page = opened(sky, walk, "objects?tab=columns")
    page.get_by_role("button", name="Statistics of mag").click()
    page.locator(".besides svg rect.bar").first.wait_for()
    mag = objects_table()["mag"].to_numpy()
    assert page.locator(".besides svg rect.bar").count() == 40
    assert f"{np.mean(mag):.6g}" in page.locator(".besides dl").inner_text()
    page.locator(".besides").scroll_into_view_if_needed()
    picture(sky, "columns", theme)


def test_the_form_of_an_export_is_filled_in_and_triggers_it(sky: Sky, walk: Walk, theme: str) -> None:
    region = f"cone {CLUSTER[0]} {CLUSTER[1]} 1deg"
    page = opened(sky, walk, f"nights?version=3&filters=mag < 15&region={region}")
    page.locator("button[data-does=export]").click()
    form = page.locator("dialog form")
    form.locator("input[name=output]").fill("bright.parquet")
    assert form.locator("select[name=version] option").count() >= 5
    picture(sky, "form", theme)
    form.get_by_role("button", name="Trigger").click()
    form.locator("a", has_text="manual__").wait_for()
    dag, conf = walk.triggered[-1]
    assert dag == "catalog_export"
    assert conf == {
        "catalog": "nights", "version": 3, "changes_since": None, "key": None, "region": region,
        "columns": None, "filters": "mag < 15", "format": None,
        "output": "bright.parquet", "overwrite": False,
    }  # fmt: skip
    page.get_by_role("button", name="Close", exact=True).click()
    page.locator("button[data-does=rollback]").click()
    assert page.locator("dialog select[name=version]").input_value() == "3"


def test_lineage_and_two_versions_side_by_side(sky: Sky, walk: Walk, theme: str) -> None:
    page = opened(sky, walk, "~lineage")
    page.locator("svg.lineage .node").first.wait_for()
    names = page.locator("svg.lineage .named").all_text_contents()
    assert {"objects", "nights", "objects_x_nights"} <= set(names)
    picture(sky, "lineage", theme)
    page = opened(sky, walk, "~compare?left=nights&left_version=1&right=nights")
    page.locator(".sides .map[data-ready]").nth(1).wait_for()
    page.locator("h3", has_text="rows from left to right").wait_for()
    picture(sky, "compare", theme)


def inside(centre: tuple[float, float], radius: float, mag: float) -> list[int]:
    """Ids of the objects within degrees of a position that are brighter than a magnitude."""
    objects = objects_table()
    ra, dec = np.radians(objects["ra"].to_numpy()), np.radians(objects["dec"].to_numpy())
    lon, lat = np.radians(centre)
    cosine = np.sin(dec) * np.sin(lat) + np.cos(dec) * np.cos(lat) * np.cos(ra - lon)
    found = (cosine >= np.cos(np.radians(radius))) & (objects["mag"].to_numpy() < mag)
    return [int(each) for each in objects["id"].to_numpy()[found]]
