"""Catalogs of others in stores and behind web servers: the same rows, and few requests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog, adopt
from hipslake.errors import CatalogFormatError, VerificationError
from hipslake.storage import parquet_tail
from hipslake.storage.folder import Storage

from tests.api.catalogs import publish_many_kinds
from tests.api.test_scan import equal
from tests.catalog.foreign_trees import leaves, tree_of, variant
from tests.catalog.publishing import Published
from tests.stores.proxy import running_proxy
from tests.stores.web import WebServer

pytestmark = pytest.mark.sampled(2)

CONE = "cone 50 10 1deg"
_AROUND = "cone 50 10 12deg"


class Counted:
    """A place, and a count of the requests that are made to it."""

    def __init__(self, root: str, put: Callable[[Path, str], None], count: Callable[[], int]) -> None:
        self.root, self.put, self._count = root, put, count
        self._before = 0

    def begin(self) -> None:
        parquet_tail.forget_tails()
        self._before = self._count()

    def requests(self) -> int:
        return self._count() - self._before


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish_many_kinds(tmp_path_factory.mktemp("ours"), "hats", rows=2500)


@pytest.fixture(params=["s3", "web"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    if request.param == "web":
        yield _web(request.getfixturevalue("web"), request.getfixturevalue("web_root"), request.node.name)
        return
    server, bucket = request.getfixturevalue("s3_server"), request.getfixturevalue("bucket")
    root = f"{bucket}/foreign/{abs(hash(request.node.name))}"

    def put(folder: Path, name: str) -> None:
        target = Storage.at(f"{root}/{name}")
        for path in folder.rglob("*"):
            if path.is_file():
                target.write(str(path.relative_to(folder)), path.read_bytes())

    with running_proxy(server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        yield Counted(root, put, lambda: len(proxy.asked))


def _web(web: WebServer, root: Path, test: str) -> Counted:
    folder = root / f"foreign-{abs(hash(test))}"

    def put(source: Path, name: str) -> None:
        shutil.copytree(source, folder / name)

    return Counted(f"{web.url}/{folder.name}", put, lambda: len(web.served()))


def test_a_tree_is_opened_by_four_requests_and_a_cone_costs_two_a_leaf(
    place: Counted, ours: Published, tmp_path: Path
) -> None:
    place.put(tree_of(ours, tmp_path / "tree"), "tree")
    mine = Catalog(ours.storage, ours.metadata)
    for region in (CONE, _AROUND):
        place.begin()
        catalog = Catalog.open(f"{place.root}/tree")
        assert place.requests() <= 4
        place.begin()
        found = catalog.read(region=region)
        met = len(mine.pixels_in(region))
        assert place.requests() <= 3 + 2 * met
        assert equal(found, mine.read(region=region))
    assert found.num_rows > 20
    assert met > 3


def test_a_collection_is_opened_by_four_requests(place: Counted, ours: Published, tmp_path: Path) -> None:
    tree_of(ours, tmp_path / "all" / "stars")
    said = "obs_collection=stars\nhats_primary_table_url=stars\n"
    (tmp_path / "all" / "collection.properties").write_text(said)
    place.put(tmp_path / "all", "all")
    place.begin()
    catalog = Catalog.open(f"{place.root}/all")
    assert place.requests() <= 4
    place.begin()
    found = catalog.read(region=_AROUND)
    assert place.requests() <= 3 + 2 * len(Catalog(ours.storage, ours.metadata).pixels_in(_AROUND))
    assert equal(found, Catalog(ours.storage, ours.metadata).read(region=_AROUND))


@pytest.mark.parametrize("name", ["by a listing", "hipscat", "mixed up", "folders", "bare"])
def test_other_forms_are_read_from_stores_too(
    place: Counted, ours: Published, tmp_path: Path, name: str
) -> None:
    place.put(variant(ours, name, tmp_path / "tree"), "tree")
    lists = not place.root.startswith("http")
    catalog = Catalog.open(f"{place.root}/tree")
    if not lists and name in ("by a listing", "bare"):
        with pytest.raises(CatalogFormatError, match="the web server lists nothing"):
            catalog.read()
        return
    if not lists and name == "folders":
        with pytest.raises(VerificationError, match="which a web server does not list"):
            catalog.read()
        return
    found = catalog.read(["id", "mag"], region=_AROUND)
    mine = Catalog(ours.storage, ours.metadata)
    assert equal(found, mine.read(["id", "mag"], region=_AROUND))
    assert catalog.scan().count() == 2500


def test_an_object_that_was_written_again_since_it_was_adopted_is_told(
    place: Counted, ours: Published, tmp_path: Path
) -> None:
    tree = tree_of(ours, tmp_path / "tree")
    place.put(tree, "tree")
    spec = {"name": "theirs", "adopt": {"uri": f"{place.root}/tree"}}
    catalog = adopt(spec, warehouse=tmp_path / "warehouse", spark=False)
    assert catalog.metadata.adopted is not None
    stamps = catalog.metadata.adopted.stamps
    assert (stamps is None) is place.root.startswith("http")
    mine = Catalog(ours.storage, ours.metadata)
    assert equal(catalog.read(["id", "mag"], region=_AROUND), mine.read(["id", "mag"], region=_AROUND))
    if stamps is None:
        return
    leaf = sorted(leaves(tree))[2]
    rows = pq.read_table(leaf, partitioning=None)
    changed = rows.set_column(rows.schema.get_field_index("mag"), "mag", pc.add(rows["mag"], 1.0))
    pq.write_table(changed, leaf)
    parquet_tail.forget_tails()
    Storage.at(f"{place.root}/tree").write(str(leaf.relative_to(tree)), leaf.read_bytes())
    with pytest.raises(VerificationError, match=f"{leaf.name} was another one .*adopt it anew"):
        catalog.read(["id"])
    again = adopt(spec, warehouse=tmp_path / "warehouse", force=True, spark=False)
    assert again.read().num_rows == 2500
