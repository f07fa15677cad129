"""The catalogs page in Airflow's UI: log in, see Gaia, point at a pixel, look at what a night changed."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipslake import Catalog
from playwright.sync_api import FrameLocator

from tests.airflow_home import PROJECT
from tests.steps import in_process
from tests.steps.nights import Survey, night_rows
from tests.steps.real_skies import copy_real_catalog
from tests.system.environment import environment
from tests.system.standalone import free_port
from tests.web.browser import PICTURES, Sky, chromium, elsewhere, find_chromium, watched

pytestmark = pytest.mark.slow

PLEIADES = (56.75, 24.12)
USER, PASSWORD = "astronomer", "a-password-of-the-test"
SPECS = PROJECT / "include" / "specs"


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Gaia, and a catalog of two nights, in one warehouse."""
    survey = Survey(tmp_path_factory.mktemp("page"))
    survey.night(0)
    survey.land(1, night_rows(1))
    folder = survey.start(1)
    in_process.append(folder)
    in_process.show(folder)
    copy_real_catalog("gaia_dr3", tmp_path_factory, Path(survey.warehouse))
    return survey


@pytest.fixture(scope="module")
def address(airflow: Path, survey: Survey) -> Iterator[str]:
    """Airflow's API server, with its UI, on that warehouse."""
    specs = survey.place / "specs"
    for folder in ("catalogs", "joins", "tables"):
        (specs / folder).mkdir(parents=True)
    (specs / "catalogs" / "gaia_dr3.yaml").write_text((SPECS / "catalogs" / "gaia_dr3.yaml").read_text())
    (specs / "catalogs" / "stars.yaml").write_text(survey.spec.read_text())
    passwords = survey.place / "passwords.json"
    passwords.write_text(json.dumps({USER: PASSWORD}))
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    variables = environment(
        HIPSLAKE_WAREHOUSE=survey.warehouse,
        HIPSLAKE_SPECS=str(specs),
        AIRFLOW__API__HOST="127.0.0.1",
        AIRFLOW__API__PORT=str(port),
        AIRFLOW__API__BASE_URL=address,
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=f"{USER}:admin",
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=str(passwords),
    )
    command = [sys.executable, "-m", "airflow"]
    subprocess.run([*command, "dags", "reserialize"], env=variables, check=True, capture_output=True)
    with (survey.place / "api-server.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "api-server", "--workers", "1"], env=variables, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            until_it_answers(server, f"{address}/api/v2/version")
            yield address
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="module")
def sky(address: str) -> Iterator[Sky]:
    """A browser in which somebody has logged in."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("there is no chromium; on Debian and Ubuntu, include/setup/setup.sh chromium gets it")
    with chromium(executable) as browser:
        sky = watched(browser, width=1400, height=1000)
        sky.page.goto(address)
        sky.page.fill("input[name=username]", USER)
        sky.page.fill("input[name=password]", PASSWORD)
        sky.page.click("button[type=submit]")
        sky.page.wait_for_url(lambda url: "login" not in url)
        sky.errors.clear()  # the UI asks who is there before anybody has logged in
        yield sky


def test_nobody_sees_the_page_without_a_session(address: str) -> None:
    for path in ("catalogs", "page.js", "api/catalogs", "api/catalogs/gaia_dr3/cells?version=1"):
        assert status(f"{address}/hipslake/{path}") == 401


def test_gaia_is_seen_and_a_pixel_tells_what_it_is(sky: Sky, address: str, survey: Survey) -> None:
    frame = opened(sky, f"{address}/plugin/catalogs")
    frame.locator("a.name", has_text="gaia_dr3").click()
    frame.locator("[data-ready='48']").wait_for()
    sky.keep(PICTURES / "airflow-gaia.png")
    x, y = frame.locator(".map").evaluate("(map, at) => map.sky.screen(...at)", list(PLEIADES))
    frame.locator(".front").hover(position={"x": x, "y": y})
    catalog = Catalog.open(survey.place / "warehouse" / "catalogs" / "gaia_dr3")
    found = catalog.pixel_at(*PLEIADES)
    leaves = catalog.metadata.partitions(None, catalog.storage).to_pylist()
    (leaf,) = [each for each in leaves if (each["order"], each["npix"]) == (found.order, found.npix)]
    told = frame.locator(".tip").inner_text()
    assert f"Order {found.order}, pixel {int(found.npix):,}" in told
    assert f"{leaf['rows']:,} rows" in told
    assert "03h 4" in told


def test_the_diff_of_a_night_is_opened_and_the_theme_followed(sky: Sky, address: str) -> None:
    frame = opened(sky, f"{address}/dags/catalog_ingest__stars/plugin/catalog")
    frame.get_by_role("button", name="What version 2 changed").click()
    assert "From version 1 to 2: +400 rows" in frame.locator(".diff h3").inner_text()
    assert "Increment 2026-10-02 came with 400 rows" in frame.locator(".diff").inner_text()
    sky.page.evaluate("document.documentElement.className = 'dark'")
    frame.locator(":root[data-theme=dark]").wait_for(state="attached")
    sky.keep(PICTURES / "airflow-diff-dark.png")


def test_the_page_stands_in_the_navigation_beside_dags(sky: Sky, address: str) -> None:
    sky.page.goto(address)
    sky.page.locator("[data-testid=nav-sidebar] a[href*='plugin/catalogs']").click()
    sky.page.frame_locator("iframe").locator("a.name", has_text="gaia_dr3").wait_for()


def test_a_form_triggers_the_dag_and_leads_the_whole_window_to_its_run(sky: Sky, address: str) -> None:
    frame = opened(sky, f"{address}/plugin/catalogs")
    frame.locator("a.name", has_text="stars").click()
    frame.locator("button[data-does=rollback]").click()
    form = frame.locator("dialog form")
    assert form.locator("select[name=version]").input_value() == "1"
    form.get_by_role("button", name="Trigger").click()
    form.locator("a", has_text="manual__").click()
    sky.page.wait_for_url(lambda url: url.startswith(f"{address}/dags/catalog_rollback__stars/runs/manual__"))


def test_the_address_of_the_window_is_that_of_what_is_shown(sky: Sky, address: str) -> None:
    frame = opened(sky, f"{address}/plugin/catalogs/hipslake/catalogs#/gaia_dr3")
    frame.locator("[data-ready='48']").wait_for()
    frame.locator("[role=tab]", has_text="Columns").click()
    sky.page.wait_for_url(lambda url: url.endswith("#/gaia_dr3?tab=columns"))
    shown = sky.page.url
    sky.page.goto("about:blank")
    frame = opened(sky, shown)
    frame.locator("[role=tab][aria-selected=true]", has_text="Columns").wait_for()


def test_nothing_was_asked_elsewhere_and_nothing_failed(sky: Sky, address: str) -> None:
    assert elsewhere(sky.asked, address) == []
    assert sky.errors == []


def opened(sky: Sky, url: str) -> FrameLocator:
    """The frame of the page in Airflow's UI."""
    sky.page.goto(url)
    return sky.page.frame_locator("iframe")


def until_it_answers(server: subprocess.Popen[bytes], url: str) -> None:
    """Wait for a server, as long as it lives, and four minutes at most."""
    for _ in range(480):
        if status(url) == 200:
            return
        try:
            server.wait(0.5)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"{url} does not answer; exit code {server.poll()}")


def status(url: str) -> int | None:
    """What a server answers to somebody without a session; None if there is no server."""
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
