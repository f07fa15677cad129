"""Catalogs on a plain web server: no listing is needed, and only the needed bytes are asked for."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hipslake import Catalog
from hipslake.errors import (
    CatalogFormatError,
    CatalogNotFoundError,
    NotReadableError,
    NotWritableError,
    StorageError,
    VersionNotFoundError,
)
from hipslake.sphere.pixels import Pixel
from hipslake.storage.folder import Storage

from tests.catalog.matching import published, rows_at
from tests.steps.nights import Survey
from tests.stores.proxy import running_proxy
from tests.stores.web import WebServer

FOOTER = 64 << 10  # bytes that a Parquet reader asks for first


@pytest.fixture(scope="module")
def place(web_root: Path) -> Path:
    """A folder of the web server's with a catalog of three versions."""
    survey = Survey(web_root / "survey", threshold="12000 rows")
    survey.night(0, rows=90_000)
    survey.night(1, rows=3000)
    survey.night(2, rows=3000)
    return survey.root


@pytest.fixture
def local(place: Path) -> Catalog:
    """The catalog as the file system shows it."""
    return Catalog.open(place)


@pytest.fixture
def url(web: WebServer, web_root: Path, place: Path) -> str:
    web.forget()
    return f"{web.url}/{place.relative_to(web_root)}"


def test_a_catalog_is_read_without_any_listing(url: str, local: Catalog, web: WebServer) -> None:
    remote = Catalog.open(url)
    assert remote.metadata == local.metadata
    assert remote.read().equals(local.read())
    assert remote.versions() == [1, 2, 3]
    remote.verify().raise_if_failed()
    assert not [line for line in web.served() if line.path.endswith("/")]
    assert {line.method for line in web.served()} == {"GET", "HEAD"}


def test_opening_is_a_pointer_and_a_look_ahead(url: str, web: WebServer) -> None:
    Catalog.open(url)
    seen = [(line.path.rpartition("survey")[2].partition("stars/")[2], line.status) for line in web.served()]
    assert seen[0] == ("metadata.json", 200)
    assert {path for path, _ in seen[1:]} == {"_versions/00000004.json"}
    assert {status for _, status in seen[1:]} == {404}
    assert len(seen) <= 3


def test_older_versions_are_opened(url: str, place: Path) -> None:
    for number in (1, 2, 3):
        remote = Catalog.open(url, version=number)
        assert remote.version == number
        assert remote.read(["id"]).equals(Catalog.open(place, version=number).read(["id"]))
    with pytest.raises(VersionNotFoundError, match="version 7 does not exist; there are: 1, 2, 3"):
        Catalog.open(url, version=7)


def test_a_read_by_pixels_fetches_their_files_and_nothing_else(
    url: str, local: Catalog, web: WebServer
) -> None:
    pixels = [Pixel(int(o), int(n)) for o, n in zip(*_neighbours(local), strict=True)]
    wanted = _paths(local, pixels)
    assert 1 < len(wanted) < len(_paths(local, None)) / 2
    remote = Catalog.open(url)
    web.forget()
    found = remote.read(["id", "mag"], pixels=pixels)
    assert found.equals(local.read(["id", "mag"], pixels=pixels))
    served = web.served()
    asked = {line.path.partition("/stars/")[2] for line in served}
    assert asked == wanted
    gets = [line for line in served if line.method == "GET"]
    assert all(line.status == 206 for line in gets)
    per_file = Counter(line.path for line in gets)
    assert max(per_file.values()) <= 3, "a footer, then runs of column chunks"


def test_a_read_of_one_column_fetches_no_whole_file(url: str, local: Catalog, web: WebServer) -> None:
    (largest,) = _largest(local)
    remote = Catalog.open(url)
    web.forget()
    assert remote.read(["night"], pixels=[largest]).equals(local.read(["night"], pixels=[largest]))
    served = sum(line.bytes for line in web.served() if line.method == "GET")
    (path,) = _paths(local, [largest])
    size = local.storage.entry(path).size
    assert size > 2 * FOOTER
    assert served < FOOTER + size / 4


def test_a_server_without_ranges_gives_the_same_rows(
    url: str, web: WebServer, place: Path, local: Catalog
) -> None:
    remote = Catalog.open(url.replace(web.url, web.rangeless_url))
    web.forget()
    (largest,) = _largest(local)
    assert remote.read(pixels=[largest]).equals(local.read(pixels=[largest]))
    assert {line.status for line in web.served()} == {200}
    assert remote.read().equals(local.read())
    remote.verify().raise_if_failed()


def test_nothing_at_the_root_is_told(url: str, web: WebServer) -> None:
    with pytest.raises(CatalogNotFoundError, match=r"/nowhere: nothing is published here .*check the path"):
        Catalog.open(f"{web.url}/nowhere")


def test_a_forbidden_root_is_told(web: WebServer, web_root: Path, place: Path) -> None:
    shutil.copytree(place, web_root / "forbidden" / "stars", symlinks=True)
    with pytest.raises(
        NotReadableError, match=r"/forbidden/stars/metadata.json: may not be read .*403.*everybody"
    ):
        Catalog.open(f"{web.url}/forbidden/stars")


def test_a_server_that_says_forbidden_of_what_is_missing_is_read(
    web: WebServer, url: str, local: Catalog
) -> None:
    """Public buckets that may not be listed answer so."""
    with running_proxy(web.url) as proxy:
        for method in ("HEAD", "GET"):
            proxy.refuse(method, r"_versions/0000000[4-9]", status=403, times=math.inf)
        remote = Catalog.open(url.replace(web.url, proxy.endpoint))
        assert remote.version == 3
        assert remote.versions() == [1, 2, 3]


def test_a_server_that_fails_is_no_missing_catalog(web: WebServer, url: str) -> None:
    with running_proxy(web.url) as proxy:
        for method in ("HEAD", "GET"):
            proxy.refuse(method, r"_versions/", status=503, times=math.inf)
        with pytest.raises(StorageError, match=r"00000004\.json: could not be read .*503") as raised:
            Catalog.open(url.replace(web.url, proxy.endpoint))
        assert raised.value.retryable
    with pytest.raises(StorageError, match="could not be read"):
        Catalog.open(url.replace(web.url, proxy.endpoint))


def test_a_server_that_answers_with_a_page_whatever_is_asked_for_is_told() -> None:
    with running_proxy("http://127.0.0.1:9") as proxy:
        for method in ("HEAD", "GET"):
            proxy.refuse(method, "", status=200, code="LogInFirst", times=math.inf)
        with pytest.raises(CatalogFormatError, match="every version that is asked for; check the address"):
            Catalog.open(f"{proxy.endpoint}/stars")


def test_nothing_is_written_through_a_web_server(web: WebServer) -> None:
    web.forget()
    storage = Storage.at(web.url)
    attempts: list[Callable[[], object]] = [
        lambda: storage.write("a", b"."),
        lambda: storage.create("a", b"."),
        lambda: storage.open("a", "wb"),
        lambda: storage.delete("a"),
        lambda: storage.delete_tree("a"),
        lambda: storage.link("a", "b"),
        storage.check_writable,
    ]
    for attempt in attempts:
        with pytest.raises(NotWritableError, match="nothing is written through a web server"):
            attempt()
    assert web.served() == []


def test_an_answer_that_is_cut_off_is_told(web: WebServer, url: str) -> None:
    with running_proxy(web.url) as proxy:
        remote = Catalog.open(url.replace(web.url, proxy.endpoint))
        proxy.drop_answers("GET", r"\.parquet", times=math.inf)
        with pytest.raises(StorageError, match=r"\.parquet"):
            remote.read(["id"])


def _neighbours(catalog: Catalog) -> tuple[list[int], list[int]]:
    """Four leaves that lie together, as those of a cone do."""
    tree = catalog.pixels
    return tree.order[:4].tolist(), tree.npix[:4].tolist()


def _paths(catalog: Catalog, pixels: list[Pixel] | None) -> set[str]:
    table = catalog.metadata.partitions("main", catalog.storage)
    rows = table.select(["order", "npix", "path"]).to_pylist()
    chosen = None if pixels is None else {(pixel.order, pixel.npix) for pixel in pixels}
    return {row["path"] for row in rows if chosen is None or (row["order"], row["npix"]) in chosen}


def _largest(catalog: Catalog) -> list[Pixel]:
    table = catalog.metadata.partitions("main", catalog.storage).sort_by([("bytes", "descending")])
    first = table.slice(0, 1).to_pylist()[0]
    return [Pixel(first["order"], first["npix"])]


def test_a_catalog_is_matched_with_one_on_a_server(web: WebServer, web_root: Path) -> None:
    rng = np.random.default_rng(3)
    ra, dec = rng.uniform(10, 12, 400), rng.uniform(-1, 1, 400)
    here = published(web_root / "match", "a", rows_at(ra, dec), threshold="40 rows")
    moved = rows_at(ra, dec + 0.5 / 3600)
    there = published(web_root / "match", "b", moved, margin_arcsec=30, threshold="40 rows")
    remote = Catalog.open(f"{web.url}/match/b")
    found = here.crossmatch(remote, radius_arcsec=1)
    assert found.num_rows == 400
    assert found.equals(here.crossmatch(there, radius_arcsec=1))
