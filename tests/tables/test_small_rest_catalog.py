"""The small REST catalog of the tests is one by Iceberg's specification; so is what is asked of it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnauthorizedError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.stores.proxy import Proxy, running_proxy
from tests.stores.rest_specification import needed_document, problems
from tests.stores.small_rest_catalog import CLIENT, PREFIX, SECRET, SmallCatalog, running_small_catalog
from tests.tables.fault_story import FaultStory
from tests.tables.sinking import Lake

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallCatalog]:
    tables = tmp_path / "warehouse" / "tables"
    tables.mkdir(parents=True)
    with running_small_catalog(f"sqlite:///{tmp_path}/small.db?timeout=120", str(tables)) as running:
        yield running


@pytest.fixture
def proxy(small: SmallCatalog) -> Iterator[Proxy]:
    with running_proxy(small.uri) as proxy:
        proxy.kept = []
        yield proxy


@pytest.fixture
def catalog(proxy: Proxy) -> Catalog:
    return load_catalog(
        "plain", type="rest", uri=proxy.endpoint, credential=f"{CLIENT}:{SECRET}", warehouse=PREFIX
    )


def everything(catalog: Catalog, proxy: Proxy) -> None:
    """Do all that a client can, and all that it is refused."""
    assert catalog.list_namespaces() == []
    catalog.create_namespace("a", {"owner": "survey"})
    catalog.create_namespace(("a", "b"))
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("a")
    assert (catalog.list_namespaces(), catalog.list_namespaces("a")) == ([("a",)], [("a", "b")])
    assert catalog.load_namespace_properties("a") == {"owner": "survey"}
    told = catalog.update_namespace_properties("a", {"owner", "nothing"}, {"by": "us"})
    assert (told.removed, told.updated, told.missing) == (["owner"], ["by"], ["nothing"])
    assert (catalog.namespace_exists("a"), catalog.namespace_exists("z")) == (True, False)
    for ask in (catalog.list_tables, catalog.load_namespace_properties, catalog.drop_namespace):
        with pytest.raises(NoSuchNamespaceError):
            ask("z")

    table = catalog.create_table("a.t", SCHEMA, properties={"write.parquet.compression-codec": "zstd"})
    assert catalog.table_exists("a.t")
    assert not catalog.table_exists("a.nothing")
    for refused, ask in [
        (TableAlreadyExistsError, lambda: catalog.create_table("a.t", SCHEMA)),
        (NoSuchNamespaceError, lambda: catalog.create_table("z.t", SCHEMA)),
        (NoSuchTableError, lambda: catalog.load_table("a.nothing")),
        (NoSuchTableError, lambda: catalog.drop_table("a.nothing")),
        (NamespaceNotEmptyError, lambda: catalog.drop_namespace("a")),
    ]:
        with pytest.raises(refused):
            ask()
    with catalog.create_table_transaction("a.staged", SCHEMA) as transaction:
        assert not catalog.table_exists("a.staged")
        transaction.set_properties({"x": "y"})
    assert catalog.load_table("a.staged").properties["x"] == "y"
    for number in range(3):
        catalog.create_table(f"a.b.t{number}", SCHEMA)
    assert sorted(catalog.list_tables("a.b")) == [("a", "b", f"t{number}") for number in range(3)]
    assert catalog.rename_table("a.staged", "a.b.moved").name() == ("a", "b", "moved")
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("a.t", "a.b.moved")
    location = catalog.load_table("a.b.moved").metadata_location
    catalog.drop_table("a.b.moved")
    assert catalog.register_table("a.again", location).properties["x"] == "y"
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("a.again", location)
    assert table.refresh().metadata_location == table.metadata_location


def asked(proxy: Proxy, method: str, path: str, **given: Any) -> requests.Response:
    """A request as any client may make it, with a token."""
    form = {"grant_type": "client_credentials", "client_id": CLIENT, "client_secret": SECRET}
    token = requests.post(f"{proxy.endpoint}/v1/oauth/tokens", data=form, timeout=30).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}", **given.pop("headers", {})}
    url = f"{proxy.endpoint}/v1/{PREFIX}/{path}"
    return requests.request(method, url, headers=headers, timeout=30, **given)


def test_it_does_all_that_it_says_and_errors_are_those_of_clients(catalog: Catalog, proxy: Proxy) -> None:
    everything(catalog, proxy)
    with pytest.raises(UnauthorizedError):
        load_catalog("other", type="rest", uri=proxy.endpoint, token="none", warehouse=PREFIX)
    assert asked(proxy, "POST", "transactions/commit", json={"table-changes": []}).status_code == 404


def test_lists_come_in_pages_if_a_client_asks_for_them(catalog: Catalog, proxy: Proxy) -> None:
    catalog.create_namespace("a")
    for number in range(5):
        catalog.create_table(f"a.t{number}", SCHEMA)
    found, token, pages = [], "", 0
    while token is not None:
        told = asked(proxy, "GET", f"namespaces/a/tables?pageSize=2&pageToken={token}").json()
        found += [each["name"] for each in told["identifiers"]]
        token, pages = told["next-page-token"], pages + 1
    assert (found, pages) == ([f"t{number}" for number in range(5)], 3)
    assert "next-page-token" not in asked(proxy, "GET", "namespaces/a/tables?pageSize=2").json()
    assert asked(proxy, "GET", "namespaces/a/tables?pageSize=0&pageToken=").status_code == 400


def test_a_commit_is_taken_by_what_it_requires(catalog: Catalog, proxy: Proxy) -> None:
    catalog.create_namespace("a")
    table = catalog.create_table("a.t", SCHEMA)
    put = {"action": "set-properties", "updates": {"x": "y"}}

    def commit(path: str = "t", **body: Any) -> tuple[int, str]:
        answer = asked(
            proxy, "POST", f"namespaces/a/tables/{path}", json={"requirements": [], "updates": [], **body}
        )
        return answer.status_code, answer.json().get("error", {}).get("type", "")

    ours = {"type": "assert-table-uuid", "uuid": str(table.metadata.table_uuid)}
    other = {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}
    moved = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 7}
    assert commit(requirements=[ours], updates=[put]) == (200, "")
    for requirement in (other, moved, {"type": "assert-create"}):
        assert commit(requirements=[requirement], updates=[put]) == (409, "CommitFailedException")
    assert commit(requirements=[{"type": "assert-luck"}], updates=[put]) == (400, "BadRequestException")
    assert commit(requirements=[ours], updates=[{"action": "wish"}]) == (400, "BadRequestException")
    assert commit("nothing", requirements=[ours], updates=[put]) == (404, "NoSuchTableException")
    answer = asked(proxy, "GET", "namespaces/a/tables/t")
    again = asked(proxy, "GET", "namespaces/a/tables/t", headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert asked(proxy, "GET", "namespaces/a/tables/t?snapshots=refs").json()["metadata"]["properties"] == {
        "x": "y"
    }
    both = {"removals": ["x"], "updates": {"x": "z"}}
    assert asked(proxy, "POST", "namespaces/a/properties", json=both).status_code == 422


def test_what_is_asked_and_answered_is_as_the_published_document_says(
    catalog: Catalog, proxy: Proxy, small: SmallCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = needed_document()
    everything(catalog, proxy)
    asked(proxy, "GET", "namespaces/a/tables?pageSize=2&pageToken=")
    asked(proxy, "GET", "namespaces?pageToken=")
    asked(proxy, "POST", "namespaces/a/properties", json={"removals": ["x"], "updates": {"x": "z"}})
    monkeypatch.setenv("PYICEBERG_CATALOG__WIRE__CREDENTIAL", f"{CLIENT}:{SECRET}")
    given = {"type": "rest", "name": "wire", "warehouse": PREFIX, "uri": proxy.endpoint}
    lake = Lake(tmp_path)
    story = FaultStory(lake, lake, given, given, None, random.Random(5), "merge-on-read")  # type: ignore[arg-type]
    for kind in (story.sunk, story.deleted, story.widened, story.compacted, story.aged, story.sunk):
        kind()()
        story.holds()
    assert proxy.kept is not None
    updates = [
        each["action"]
        for exchange in proxy.kept
        if exchange.method == "POST" and "/tables/" in exchange.path and b'"updates"' in exchange.body
        for each in json.loads(exchange.body)["updates"]
    ]
    assert {"add-snapshot", "set-snapshot-ref", "set-properties", "remove-snapshots", "add-schema"} <= set(
        updates
    )
    assert problems(document, proxy.kept) == []
    one = next(each for each in proxy.kept if each.method == "POST" and b"add-snapshot" in each.body)
    [told] = problems(document, [one._replace(body=one.body.replace(b'"manifest-list"', b'"manifests"'))])
    assert "request: updates/" in told
    assert len(problems(document, [one._replace(answer=b'{"metadata-location": 5, "metadata": {}}')])) == 3
