"""The list in a browser, searched and put in order; and the pages of tables and cubes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.web import made_up
from tests.web.browser import Sky, chromium, find_chromium, watched
from tests.web.oracle import whole_sky

pytestmark = pytest.mark.system

RUN = {
    "dag_id": "iceberg_sink__gaia", "run_id": "manual__1", "state": "success",
    "run_after": "2026-11-20T00:00:00Z", "start": "2026-11-20T00:00:00Z", "end": "2026-11-20T00:01:00Z",
}  # fmt: skip
FAILED = {
    "dag_id": "iceberg_sink__gaia", "run_id": "manual__0", "run_after": "2026-11-19T00:00:00Z",
    "error": "SourceError: the file is cut",
}  # fmt: skip
COLUMN = {
    "name": "phot_g_mean_mag", "type": "float", "kind": "number", "unit": "mag", "ucd": "phot.mag;em.opt",
    "description": "G", "group": "main",
}  # fmt: skip
TABLE = {
    "name": "gaia", "title": "sky.gaia", "description": "Gaia as a table", "version": "77", "rows": 482_176,
    "bytes": 1 << 20, "files": 12, "created": "2026-11-20T00:00:00Z", "last_run": RUN, "last_failed": FAILED,
    "problem": None, "spec_problem": None, "uri": "/warehouse/iceberg/sky/gaia",
    "dags": {"sink": "iceberg_sink__gaia", "compact": "table_compact__gaia"}, "last_runs": [RUN],
    "columns": [COLUMN], "partitioning": "bucket(8, id)", "sorting": "id",
    "versions": [{"version": "77", "created": "2026-11-20T00:00:00Z", "rows": 482_176}],
    "lines": [{"tool": "DuckDB", "language": "sql", "text": "SELECT 1"}],
}  # fmt: skip
CUBE = {
    **TABLE, "name": "cube", "title": "cube", "description": "A cube", "last_failed": None,
    "dags": {"build": "cube_build__cube"}, "versions": [], "partitioning": None,
    "partition_columns": ["night"],
    "dimension_columns": ["id"],
    "datasets": [{"name": "seed", "role": "seed", "rows": 10, "bytes": 100, "files": 1, "columns": [COLUMN]}],
}  # fmt: skip


SKY = whole_sky(1)
SOURCE = {
    "relation": "read", "uri": "s3://theirs/gaia", "copied": False, "name": "gaia_of_theirs",
    "builder": "a tool v3", "made": "2026-01-02T03:04:00Z", "state": "foreign-12ab",
    "looked_at": "2026-11-20T00:00:00Z",
    "properties": {"hats_nrows": "48", "obs_description": "<b>bold</b>"},
}  # fmt: skip
OTHERS = {
    "catalog_007": {**SOURCE, "relation": "adopted", "copied": True, "properties": {}},
    "catalog_008": SOURCE,
}
"""Catalogs of others: one that was adopted, and one that is read where it lies."""


def listed(number: int, **more: Any) -> dict[str, Any]:
    return {
        "name": f"catalog_{number:03}", "description": f"the catalog number {number}",
        "version": 1 + number % 7, "rows": (number * 7919) % 1000, "bytes": number, "partitions": 1,
        "layout": "hats",
        "created": "2026-11-20T00:00:00Z", "last_run": None, "problem": None, "spec_problem": None,
        "last_failed": None, "nights": 0, "kind": "catalog", **more,
    }  # fmt: skip


@pytest.fixture(scope="module")
def sky() -> Iterator[Sky]:
    executable = find_chromium()
    if executable is None:
        pytest.skip("there is no chromium; on Debian and Ubuntu, include/setup/setup.sh chromium gets it")
    catalogs = [listed(number) for number in range(1000)]
    catalogs[5] |= {
        "version": None,
        "rows": None,
        "problem": "not published yet",
        "spec_problem": "x.yaml:3: bad",
    }
    for number, relation in ((7, "adopted"), (8, "read")):
        catalogs[number]["relation"] = relation
    more = {
        "/api/catalogs": catalogs, "/api/tables": [TABLE], "/api/cubes": [CUBE], "/api/tables/gaia": TABLE,
        "/api/cubes/cube": CUBE, "/api/reports": [],
        **{
            f"/api/catalogs/{name}": {**made_up.catalog_answer(name, SKY), "source": source, "created": None}
            for name, source in OTHERS.items()
        },
    }  # fmt: skip
    with made_up.serving(dict.fromkeys(OTHERS, SKY), more) as address, chromium(executable) as browser:
        sky = watched(browser)
        sky.page.goto(address)
        yield sky
        assert sky.errors == []
        sky.page.context.close()


def names(sky: Sky) -> list[str]:
    return sky.page.locator("#catalogs tbody .name").all_inner_texts()


def test_the_list_is_searched_filtered_and_put_in_order(sky: Sky) -> None:
    page = sky.page
    page.locator("#catalogs tbody tr").nth(999).wait_for()
    assert names(sky) == sorted(names(sky))
    page.locator("#catalogs th button", has_text="Rows").click()
    most = sorted(range(1000), key=lambda number: -((number * 7919) % 1000) if number != 5 else 1)
    assert names(sky)[:3] == [f"catalog_{number:03}" for number in most[:3]]
    assert names(sky)[-1] == "catalog_005"  # what is not known comes last
    page.get_by_label("Find", exact=True).fill("number 42")
    assert set(names(sky)) == {f"catalog_{number:03}" for number in range(1000) if "42" in f"{number:03}"}
    page.get_by_label("Find", exact=True).fill("")
    sky.choose("Show", "problem")
    assert names(sky) == ["catalog_005"]
    assert "Its spec: x.yaml:3: bad" in page.locator("#catalogs tbody").inner_text()
    assert "status=problem" in page.evaluate("location.hash")


def test_a_failed_run_shows_although_the_last_one_went_well(sky: Sky) -> None:
    sky.choose("Show", "failed")
    told = sky.page.locator("#tables tbody tr").inner_text()
    assert "success" in told
    assert "failed" in told
    assert "the file is cut" in told


def test_tables_and_cubes_have_pages_of_their_own(sky: Sky) -> None:
    page = sky.page
    page.locator("#tables a.name").click()
    page.locator("h1", has_text="sky.gaia").wait_for()
    text = page.locator("main").inner_text()
    for wanted in ("482,176", "bucket(8, id)", "phot_g_mean_mag", "phot.mag;em.opt", "SELECT 1", "manual__1"):
        assert wanted in text
    assert page.locator("nav.actions button").all_inner_texts() == ["Sink", "Compact"]
    page.goto(page.url.split("#")[0] + "#/~cubes/cube")
    page.locator("h1", has_text="cube").first.wait_for()
    page.get_by_text("1 column").click()
    text = page.locator("main").inner_text()
    for wanted in ("night", "seed", "phot_g_mean_mag", "Build"):
        assert wanted in text


def test_catalogs_of_others_are_marked_and_tell_of_their_source(sky: Sky) -> None:
    page = sky.page
    page.goto(page.url.split("#")[0] + "#/")
    page.locator("#catalogs tbody tr").nth(999).wait_for()
    page.get_by_label("Find", exact=True).fill("number 7")
    marks = page.locator("#catalogs tbody tr", has_text="catalog_007").locator(".badge")
    assert marks.all_inner_texts() == ["adopted"]
    page.get_by_label("Find", exact=True).fill("number 8")
    assert page.locator("#catalogs .badge").all_inner_texts() == ["of others"]
    page.locator("#catalogs a.name", has_text="catalog_008").click()
    page.locator("h1", has_text="catalog_008").wait_for()
    assert page.locator(".tabs button").all_inner_texts() == ["Source", "Rows", "Columns", "Open it"]
    page.locator(".source summary").click()
    text = page.locator(".source").inner_text()
    for wanted in ("s3://theirs/gaia", "gaia_of_theirs", "a tool v3", "2026-01-02 03:04 UTC", "foreign-12ab"):
        assert wanted in text
    assert "stay there, and are only read" in text
    assert "<b>bold</b>" in text  # as it is, and no markup
    assert page.locator("h1 .badge").inner_text() == "of others"
    assert "Trigger" not in page.locator("header").inner_text()
    page.goto(page.url.split("#")[0] + "#/catalog_007?tab=source")
    page.locator("h1", has_text="catalog_007").wait_for()
    assert page.locator(".tabs button").all_inner_texts()[:3] == ["Versions", "Source", "Rows"]
    page.locator(".source").wait_for()
    assert "are copied into the warehouse" in page.locator(".source").inner_text()
