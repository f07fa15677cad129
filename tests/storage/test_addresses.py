"""Addresses that are one place are one, whoever compares them; those that are two are two."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import fsspec
import pytest
from hipslake.errors import SpecError
from hipslake.steps.cube.cube_place import changed_root, new_root
from hipslake.steps.export.outputs import output_uri, refuse_published
from hipslake.storage.addresses import is_below, is_same_address, normal_address
from hipslake.storage.folder import Storage
from hypothesis import given
from hypothesis import strategies as st

ONE_PLACE = [
    "s3://lake/warehouse",
    "s3a://lake/warehouse",
    "s3n://lake/warehouse",
    "S3://lake/warehouse",
    "s3:///lake/warehouse",
    "s3a:////lake//warehouse/",
    "s3://LAKE/warehouse",
    "s3://lake/./warehouse",
    "s3://lake/x/../warehouse",
    "s3://lake/../lake/warehouse",
]


@pytest.mark.parametrize(("one", "other"), [*itertools.product(ONE_PLACE, ONE_PLACE)])
def test_all_names_of_a_place_are_that_place(one: str, other: str) -> None:
    assert is_same_address(one, other)
    assert is_below(f"{one}/catalogs/x", other)


@pytest.mark.parametrize(
    "other",
    [
        "s3://lake/Warehouse",
        "s3://lake/warehouse2",
        "s3://lake2/warehouse",
        "gs://lake/warehouse",
        "s3://lake",
    ],
)
def test_other_places_are_others(other: str) -> None:
    assert not is_same_address(ONE_PLACE[0], other)
    assert not is_below(other, ONE_PLACE[0])


def test_stores_of_one_kind_have_one_scheme() -> None:
    assert is_same_address("gcs://b/x", "gs://b/x")
    assert is_same_address("abfss://box@account.dfs.core.windows.net/x", "az://box/x")
    assert is_same_address("hdfs://NameNode:8020/x", "hdfs://namenode/x")
    assert is_same_address("HTTPS://Host:443/x", "https://host/x")


@given(
    st.sampled_from(["s3", "s3a", "memory"]),
    st.lists(st.sampled_from(["a", "b.c", "%2e%2e", "%2F", "A", "x y"]), min_size=2, max_size=5),
    st.integers(2, 4),
)
def test_what_fsspec_takes_to_one_key_is_one_address(scheme: str, parts: list[str], slashes: int) -> None:
    """fsspec is the oracle: percent signs are letters to it, and slashes before a bucket are none."""
    parts = [parts[0].lower().replace("%2e%2e", "d").replace("%2f", "e"), *parts[1:]]
    uri = f"{scheme}:{'/' * slashes}{'/'.join(parts)}"
    key = fsspec.get_filesystem_class(scheme)._strip_protocol(uri).strip("/")
    assert normal_address(uri).partition("://")[2] == key


def test_a_local_place_is_known_by_links_dots_and_uris(tmp_path: Path) -> None:
    root = tmp_path / "warehouse"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    uris = (f"file://{root}", f"FILE://{root}", f"file:{root}")
    for name in (f"{tmp_path}/link", f"{tmp_path}//x/../warehouse/.", *uris):
        assert is_same_address(name, root), name
        assert is_below(f"{name}/catalogs", root), name
        assert not is_below(root, f"{name}/catalogs"), name


def test_percent_signs_are_letters_as_they_are_to_the_stores(tmp_path: Path) -> None:
    assert not is_same_address("s3://lake/%77arehouse", "s3://lake/warehouse")
    assert not is_same_address(f"file://{tmp_path}/%77", f"{tmp_path}/w")


PUBLISHED = "_versions/00000001.json"


@pytest.mark.parametrize("outputs", ["", "s3://exports/public"])
@pytest.mark.parametrize("warehouse", ["s3://lake/warehouse", "s3a://lake/warehouse"])
@pytest.mark.parametrize("name", [f"{place}/catalogs/stars/{PUBLISHED}.csv" for place in ONE_PLACE])
def test_no_name_of_the_warehouse_lets_an_output_into_it(
    warehouse: str, name: str, outputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPSLAKE_OUTPUTS", outputs)
    with pytest.raises((SpecError, ValueError)):
        output_uri(warehouse, name)
    with pytest.raises((SpecError, ValueError)):
        new_root(warehouse, name, Storage.at(f"{warehouse}/cubes/sky"))


def test_what_is_written_is_what_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """`s3://bucket//a` is another key than `s3://bucket/a` to a store: the one that was compared is used."""
    monkeypatch.setenv("HIPSLAKE_OUTPUTS", "s3://exports/public")
    assert output_uri("s3://lake/w", "s3a://exports//public/./x.csv") == "s3://exports/public/x.csv"


@pytest.mark.parametrize(
    "address", ["/elsewhere/sky", "s3://lake/other/sky", "s3a://lake/warehouse/catalogs/sky"]
)
def test_nothing_is_removed_outside_of_the_cubes_but_where_it_is_allowed(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HIPSLAKE_OUTPUTS", raising=False)
    with pytest.raises(SpecError, match="nothing is removed"):
        changed_root("s3://lake/warehouse", address)
    monkeypatch.setenv("HIPSLAKE_OUTPUTS", "s3://lake /elsewhere")
    if "warehouse" in address:
        with pytest.raises(SpecError, match="nothing is removed"):
            changed_root("s3://lake/warehouse", address)
    else:
        assert changed_root("s3://lake/warehouse", address).uri() == address
    assert changed_root("s3://lake/warehouse", "sky").uri() == "s3://lake/warehouse/cubes/sky"
    assert (
        changed_root("s3a://lake/warehouse", "s3:///lake/warehouse/cubes/sky").uri()
        == "s3://lake/warehouse/cubes/sky"
    )


def test_nothing_is_written_into_what_another_warehouse_has_published(tmp_path: Path) -> None:
    catalog = tmp_path / "other" / "catalogs" / "stars"
    (catalog / "_versions").mkdir(parents=True)
    (catalog / PUBLISHED).write_text("{}")
    for inside in (catalog / "x.csv", catalog / "_versions" / "00000002.json", catalog / "a" / "b" / "c.csv"):
        with pytest.raises(SpecError, match="published"):
            refuse_published(os.path.realpath(inside))
    refuse_published(os.path.realpath(tmp_path / "other" / "x.csv"))
