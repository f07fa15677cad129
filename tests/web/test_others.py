"""Catalogs of others on the page, adopted or read where they lie: endpoints tell what numpy counts."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import healpy
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy.io.votable import parse_single_table
from hipslake import Catalog, adopt
from hipslake_airflow.web import download, others
from hipslake_airflow.web.others import named_others
from hipslake_airflow.web.source_answer import adopted_source, shown_address

from tests.catalog.foreign_trees import variant
from tests.catalog.publishing import publish
from tests.stores.slow import running_slow
from tests.web.of_others import CONE, READ, SHOWN, SPEC, PageOf, Place, listed, near, told

if TYPE_CHECKING:
    from tests.web.catalogs_page import Page

pytestmark = pytest.mark.sampled(2)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    root = tmp_path_factory.mktemp("others")
    published = publish(root / "published", rows=1500, threshold="150 rows")
    for name, form in READ.items():
        variant(published, form, root / name)
    for name, copied in (("theirs", False), ("copied", True)):
        spec = {"name": name, "adopt": {"uri": str(root / "plain"), "copy": copied}, "index": ["id"]}
        adopt(spec, warehouse=root / "warehouse", spark=False)
    specs = root / "specs" / "catalogs"
    specs.mkdir(parents=True)
    (specs / "sources.yaml").write_text(SPEC)  # placed by `stars`, as the tree calls itself, too
    return Place(root, published)


@pytest.fixture(scope="module")
def page_of(airflow: Path) -> Iterator[PageOf]:
    """Makes the page of a warehouse and of catalogs of others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.web.catalogs_page.PerDag")
        from airflow.api_fastapi.app import purge_cached_app

        from tests.web.catalogs_page import Page

        def make(warehouse: Path, others: str, specs: Path | None = None) -> Page:
            patch.setenv("HIPSLAKE_OTHERS", others)
            return Page(warehouse, specs or warehouse / "specs")

        yield make
        purge_cached_app()


@pytest.fixture(scope="module")
def page(page_of: PageOf, place: Place) -> Page:
    return page_of(place.root / "warehouse", place.others, place.root / "specs")


def test_they_are_listed_and_marked(page: Page, place: Place) -> None:
    found = listed(page)
    assert {name: each["relation"] for name, each in found.items()} == {
        **dict.fromkeys(READ, "read"),
        "theirs": "adopted",
        "copied": "adopted",
        "sources": None,  # a spec that nothing was published of
    }
    leaves = place.published.metadata.groups[0].leaves
    for name in SHOWN:
        each = found[name]
        assert (each["rows"], each["partitions"], each["version"]) == (1500, leaves, 1), name
        assert each["problem"] is None
        assert each["bytes"] > 0


def test_each_takes_the_right_that_others_take(page: Page) -> None:
    assert set(listed(page, name="catalog_ingest__old", role="VIEWER")) == {"old"}
    user = page.as_user("catalog_ingest__plain", role="VIEWER")
    for path, code in (("plain", 200), ("plain/rows", 200), ("old", 403), ("old/rows", 403)):
        assert user.get(f"/hipslake/api/catalogs/{path}").status_code == code
    assert user.get("/hipslake/api/compare?left=plain&right=old").status_code == 403
    assert user.get("/hipslake/scs/old?RA=1&DEC=1&SR=1").status_code == 403


@pytest.mark.parametrize("name", SHOWN)
def test_map_and_densities_are_those_of_healpy(page: Page, place: Place, name: str) -> None:
    ra, dec = place.published.degrees
    cells = told(page, f"/{name}/cells", version=1)
    assert cells["totals"]["rows"] == 1500
    for order, npix, rows in zip(cells["order"], cells["npix"], cells["rows"], strict=True):
        assert (healpy.ang2pix(1 << order, ra, dec, nest=True, lonlat=True) == npix).sum() == rows
    for order in (0, 3, 8):
        answer = page.as_user().get(f"/hipslake/api/catalogs/{name}/density", params={"order": order})
        at = healpy.ang2pix(1 << order, ra, dec, nest=True, lonlat=True)
        assert answer.headers["x-hipslake-exact"] == "true"
        assert answer.headers["x-hipslake-order"] == str(order)
        found = np.frombuffer(answer.content, "<u4")
        assert (found == np.bincount(at, minlength=12 << 2 * order)).all()
    tile = page.as_user().get(f"/hipslake/api/catalogs/{name}/density/1/20", params={"deeper": 9})
    at = healpy.ang2pix(1 << 10, ra, dec, nest=True, lonlat=True)
    wanted = np.bincount(at[at >> 18 == 20] - (20 << 18), minlength=1 << 18)
    assert (np.frombuffer(tile.content, "<u4") == wanted).all()


@pytest.mark.parametrize("name", SHOWN)
def test_rows_of_a_region_are_those_of_numpy(page: Page, place: Place, name: str) -> None:
    source, inside = place.published.source, near(place, *CONE)
    region = "cone {} {} {}deg".format(*CONE)
    found = told(page, f"/{name}/rows", region=region, columns=["id", "mag"], limit=5000)
    assert (found["total"], found["truncated"]) == (inside.sum(), False)
    rows = source.filter(pa.array(inside))
    wanted = dict(zip(rows["id"].to_pylist(), rows["mag"].to_pylist(), strict=True))
    ids, given = found["data"]
    given = [None if mag is None else float(np.float32(mag)) for mag in given]
    assert dict(zip(ids, given, strict=True)) == wanted
    bright = told(page, f"/{name}/rows", region=region, filters="mag < 14", columns=["id"], limit=5000)
    assert set(bright["data"][0]) == {key for key, mag in wanted.items() if mag is not None and mag < 14}
    mags = source["mag"].drop_null().to_numpy()
    least = told(page, f"/{name}/rows", columns=["mag"], sort="mag", limit=5)
    assert np.array_equal(np.float32(least["data"][0]), np.sort(mags)[:5])
    row = told(page, f"/{name}/row", key=found["keys"][3])
    at = source["id"].to_pylist().index(found["data"][0][3])
    shown = dict(zip([each["name"] for each in row["columns"]], row["values"], strict=True))
    assert (shown["id"], shown["note"]) == (source["id"][at].as_py(), source["note"][at].as_py())
    assert (row["ra"], row["dec"]) == pytest.approx([each[at] for each in place.published.degrees])
    assert row["light_curves"] == []


@pytest.mark.parametrize("name", SHOWN)
def test_statistics_of_columns_are_those_of_numpy(page: Page, place: Place, name: str) -> None:
    source = place.published.source
    columns = {each["name"]: each for each in told(page, f"/{name}/columns")["columns"]}
    mags = source["mag"].drop_null().to_numpy()
    told_mag = columns["mag"]
    assert (told_mag["rows"], told_mag["nulls"]) == (1500, 1500 - len(mags))
    assert (np.float32(told_mag["min"]), np.float32(told_mag["max"])) == (mags.min(), mags.max())
    assert columns["id"]["indexed"] is (name in ("theirs", "copied"))
    told_dec = told(page, f"/{name}/column", column="dec", bins=12)
    counts, edges = np.histogram(place.published.degrees[1], np.array(told_dec["histogram"]["edges"]))
    assert told_dec["exact"]
    assert told_dec["histogram"]["counts"] == counts.tolist()
    assert len(edges) == 13


@pytest.mark.parametrize("name", ["mixed", "theirs"])
def test_files_and_cone_searches_have_the_rows(page: Page, place: Place, name: str) -> None:
    inside = near(place, *CONE)
    ids = sorted(place.published.source["id"].filter(pa.array(inside)).to_pylist())
    asked = {"format": "parquet", "region": "cone {} {} {}deg".format(*CONE)}
    user = page.as_user()
    answer = user.get(f"/hipslake/api/catalogs/{name}/download", params=asked)
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}_v1.parquet"'
    assert sorted(pq.read_table(io.BytesIO(answer.content))["id"].to_pylist()) == ids
    ra, dec, radius = CONE
    cone = user.get(f"/hipslake/scs/{name}", params={"RA": ra, "DEC": dec, "SR": radius})
    table = parse_single_table(io.BytesIO(cone.content)).to_table()
    assert sorted(int(each) for each in table["id"]) == ids


def test_both_sides_of_a_comparison_have_the_names_of_the_page(page: Page) -> None:
    answer = page.as_user().get("/hipslake/api/compare?left=old&right=theirs&order=4").json()
    assert (answer["left"]["name"], answer["right"]["name"]) == ("old", "theirs")
    assert answer["left_rows"] == answer["right_rows"]
    assert sum(answer["left_rows"]) == 1500


@pytest.mark.parametrize("name", list(READ))
def test_what_is_read_has_no_history_and_no_dag(
    page: Page, place: Place, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = told(page, f"/{name}")
    assert (found["name"], found["dags"], found["last_runs"], found["newest"]) == (name, {}, [], 1)
    assert found["uri"] == str(place.root / name)
    assert told(page, f"/{name}/versions") == told(page, f"/{name}/runs") == []
    timeline = told(page, f"/{name}/timeline")
    assert (timeline["versions"], timeline["nights"]) == ([], [])
    assert "version 2 does not exist" in told(page, f"/{name}", 404, version=2)["detail"]
    monkeypatch.setattr(download, "MOST_DOWNLOADED", 100)
    refused = told(page, f"/{name}/download", 413, format="csv")
    assert refused["dag"] is None
    assert "Catalog.open" in refused["detail"]
    source = found["source"]
    assert (source["relation"], source["uri"], source["copied"]) == ("read", found["uri"], False)
    assert source["properties"]["hats_nrows"] == "1500"
    assert source["state"] == Catalog.open(place.root / name).metadata.write_id
    assert datetime.fromisoformat(source["looked_at"]) <= datetime.now(UTC)
    tools = [line["tool"] for line in found["lines"]]
    assert tools == (["hipslake", "Spark"] if name == "old" else ["LSDB", "hipslake", "Spark"])
    for line in found["lines"][-2:-1]:
        names: dict[str, Any] = {}
        exec(line["text"], names)
        assert names["catalog"].scan().count() == 1500


@pytest.mark.parametrize("name", ["theirs", "copied"])
def test_what_was_adopted_tells_of_its_source(page: Page, place: Place, name: str) -> None:
    found = told(page, f"/{name}")
    metadata = Catalog.open(place.root / "warehouse" / "catalogs" / name).metadata
    source = found["source"]
    assert metadata.adopted is not None
    assert (source["relation"], source["uri"]) == ("adopted", str(place.root / "plain"))
    assert (source["copied"], source["name"]) == (name == "copied", "stars")
    assert source["state"] == metadata.adopted.state == Catalog.open(place.root / "plain").metadata.write_id
    assert source["looked_at"] is None  # no DAG did
    assert found["indices"] == ["id"]
    assert [line["tool"] for line in found["lines"]] == ["hipslake", "Spark"]
    sought = told(page, f"/{name}/search", q="id = 77")
    at = place.published.source["id"].to_pylist().index(77)
    assert sought["places"][0]["ra"] == pytest.approx(place.published.degrees[0][at])


def test_the_last_look_is_that_of_the_last_run_that_went_well(page: Page, adopting: datetime) -> None:
    source = told(page, "/theirs")["source"]
    assert datetime.fromisoformat(source["looked_at"]) == adopting
    assert told(page, "/copied")["source"]["looked_at"] is None


@pytest.fixture
def adopting() -> Iterator[datetime]:
    """Runs of the DAG that adopts `theirs`: two went well, and a later one failed; when the second began."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    dag_id = "catalog_adopt__theirs"
    times = [datetime(2026, 11, day, tzinfo=UTC) for day in (20, 21, 22)]
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        session.merge(DagModel(dag_id=dag_id, bundle_name="dags-folder", is_stale=False, fileloc="x"))
        session.flush()
        for number, start in enumerate(times):
            session.add(
                DagRun(
                    dag_id=dag_id,
                    run_id=f"look-{number}",
                    run_type=DagRunType.MANUAL,
                    run_after=start,
                    start_date=start,
                    state=DagRunState.FAILED if number == 2 else DagRunState.SUCCESS,
                    triggered_by=DagRunTriggeredByType.TEST,
                )
            )
    yield times[1]
    with create_session() as session:
        session.query(DagRun).filter(DagRun.dag_id == dag_id).delete()
        session.query(DagModel).filter(DagModel.dag_id == dag_id).delete()


def test_a_value_is_not_looked_for_in_all_leaves_of_others(page: Page) -> None:
    assert "has no index" in told(page, "/plain/search", 422, q="id = 77")["detail"]
    assert told(page, "/plain/search", q="50 10")["kind"] == "position"


def test_what_changes_there_is_seen_after_a_while(
    page_of: PageOf, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "LOOKED_AT", 0.05)
    tree = variant(place.published, "as it is", tmp_path / "tree")
    page = page_of(tmp_path / "warehouse", f"a={tree}")
    first = told(page, "/a")
    time.sleep(0.1)
    assert told(page, "/a")["source"]["state"] == first["source"]["state"]
    for name in ("properties", "hats.properties"):
        text = (tree / name).read_text()
        (tree / name).write_text(text + "obs_description=written anew\n")
    time.sleep(0.1)
    second = told(page, "/a")
    assert second["source"]["state"] != first["source"]["state"]
    assert second["source"]["properties"]["obs_description"] == "written anew"
    for name in ("properties", "hats.properties"):
        (tree / name).unlink()
    time.sleep(0.1)
    assert told(page, "/a", 404)["detail"].startswith("CatalogNotFoundError")


def test_what_cannot_be_shown_says_why_and_the_others_are_shown(
    page_of: PageOf, place: Place, tmp_path: Path
) -> None:
    wrong = {
        "gone": f"{tmp_path}/nowhere",
        "secret": "https://me:hunter2@example.org/gaia",
        "signed": "https://example.org/gaia?sig=hunter2",
        "ours": str(place.root / "warehouse" / "catalogs" / "theirs"),
        "unset": "${NO_SUCH_VARIABLE}/gaia",
        "scheme": "gopher://example.org/gaia",
    }
    entries = [f"{name}={uri}" for name, uri in wrong.items()]
    text = " ".join([*entries, "good=" + str(place.root / "plain"), "hunter2", "a/b=hunter2", "good=hunter2"])
    page = page_of(tmp_path / "warehouse", text)
    found = listed(page)
    assert set(found) == {*wrong, "good", "HIPSLAKE_OTHERS"}
    assert found["good"]["rows"] == 1500
    assert found["HIPSLAKE_OTHERS"]["problem"] == (
        "HIPSLAKE_OTHERS: entry 8 is not name=URI; write gaia=https://..., with blanks between entries; "
        "the name of entry 9 is none; take letters, digits, _ and -; good stands twice; give each catalog a "
        "name of its own"
    )
    expected = {
        "gone": "CatalogNotFoundError",
        "secret": "an address holds a password",
        "signed": "an address holds sig",
        "ours": "is a catalog of hipslake",
        "unset": "NO_SUCH_VARIABLE",
        "scheme": "is no store",
    }
    for name, words in expected.items():
        assert words in found[name]["problem"]
        answer = page.as_user().get(f"/hipslake/api/catalogs/{name}")
        assert answer.status_code in (404, 503)
        assert words in answer.text
        assert "hunter2" not in answer.text
    assert "hunter2" not in str(found)
    assert set(listed(page, name="catalog_ingest__other", role="VIEWER")) == set()


def test_an_index_of_others_is_no_catalog_of_the_page(page_of: PageOf, place: Place, tmp_path: Path) -> None:
    tree = variant(place.published, "as it is", tmp_path / "tree")
    for name in ("properties", "hats.properties"):
        text = (tree / name).read_text()
        (tree / name).write_text(text.replace("dataproduct_type=object", "dataproduct_type=index"))
    found = listed(page_of(tmp_path / "warehouse", f"index={tree}"))
    assert "of kind index" in found["index"]["problem"]


def test_a_catalog_of_the_warehouse_goes_first(page_of: PageOf, place: Place) -> None:
    named = f"theirs={place.root / 'old'} sources={place.root / 'old'}"
    page = page_of(place.root / "warehouse", named, place.root / "specs")
    found = listed(page)
    assert found["theirs"]["problem"].startswith("HIPSLAKE_OTHERS gives a catalog of others this name")
    assert found["sources"]["problem"].startswith("not published yet; HIPSLAKE_OTHERS gives")
    assert told(page, "/theirs")["source"]["relation"] == "adopted"
    assert told(page, "/sources", 404)["detail"].startswith("CatalogNotFoundError")


def test_a_store_that_is_silent_holds_up_no_list(
    page_of: PageOf, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_PAGE_SECONDS", "3")
    with running_slow("silent") as server:
        page = page_of(place.root / "warehouse", f"far={server.url}/gaia near={place.root / 'plain'}")
        start = time.monotonic()
        found = listed(page)
        assert time.monotonic() - start < 3
        assert found["far"]["problem"].startswith("StoreTimeoutError")
        assert found["near"]["rows"] == found["theirs"]["rows"] == 1500
        asked = server.asked
        assert listed(page)["far"]["problem"] == found["far"]["problem"]
        assert server.asked == asked  # not asked again at once


def test_an_address_is_shown_without_its_secrets(place: Place) -> None:
    metadata = Catalog.open(place.root / "warehouse" / "catalogs" / "theirs").metadata
    assert metadata.adopted is not None
    for uri in ("https://me:hunter2@host/x", "https://hunter2@host/x", "s3://b/x?X-Amz-Signature=hunter2"):
        leaky = metadata.adopted.model_copy(update={"uri": uri})
        source = adopted_source(metadata.model_copy(update={"adopted": leaky}), None)
        assert source is not None
        assert "hunter2" not in source.uri
        assert "hunter2" not in shown_address(uri)
    assert shown_address("s3://bucket/gaia/hats") == "s3://bucket/gaia/hats"


def test_entries_are_told_apart_by_blanks() -> None:
    uris, problem = named_others("  a=s3://b/c?x=1  b-2=/data/hats\n")
    assert uris == {"a": "s3://b/c?x=1", "b-2": "/data/hats"}
    assert problem is None
    assert named_others("") == ({}, None)


def test_lineage_shows_no_secret_of_a_spec(page_of: PageOf, tmp_path: Path) -> None:
    (tmp_path / "specs" / "joins").mkdir(parents=True)
    (tmp_path / "specs" / "joins" / "pairs.yaml").write_text(
        "name: pairs\ntype: crossmatch\nleft: {catalog: 'https://me:hunter2@example.org/gaia'}\n"
        "right: {catalog: stars}\nradius_arcsec: 1\n"
    )
    page = page_of(tmp_path / "warehouse", "", tmp_path / "specs")
    answer = page.as_user().get("/hipslake/api/lineage")
    assert "hunter2" not in answer.text
    ids = {node["id"] for node in answer.json()["nodes"]}
    assert ids == {"catalog:pairs", "catalog:stars", "source:https://***@example.org/gaia"}
    assert all(edge["from"] in ids and edge["to"] in ids for edge in answer.json()["edges"])
