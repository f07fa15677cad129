"""Readers get the newest version by the documented paths after every kind of commit, or are told where it is.

Stores, layouts, modes of `unchanged` and ways of appending are crossed. `make test-slow` does all of it, CI
does some, so chosen that in either layout every kind of commit is looked at. Spark reads files of S3 by a
connector that is no part of this project (`hadoop-aws`), so there it is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest
from hipslake import Catalog
from hipslake.errors import TreeNotFoundError

from tests.readers.outside import (
    assert_current_is_newest,
    assert_no_current,
    assert_same_rows,
    by_pyarrow,
    by_pyarrow_in_store,
    expected_rows,
    rows_of,
)
from tests.readers.peer import Peer
from tests.steps import in_process
from tests.steps.nights import Survey
from tests.steps.store_nights import StoreSurvey
from tests.steps.upkeep.test_trees import CHANGES as OF_NIGHTS
from tests.steps.upkeep.test_trees import GROUPS, view

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Kind(NamedTuple):
    """Of a catalog."""

    place: str
    layout: str
    unchanged: str
    append: str


KINDS = [
    Kind(*each)
    for each in product(
        ("local", "s3"), ("hats", "hipscat"), ("link", "copy", "reference"), ("rewrite", "add_file")
    )
]


def ingest(survey: Survey) -> None:
    """All nights that were landed, as one whole new version, with margin and index."""
    nights = survey.spec_text or survey.spec.read_text()
    assert "mode: append\n" in nights
    survey.spec_text = nights.replace("mode: append\n", "").replace("night={{ night }}", "night=*")
    folder = survey.begin()
    for step in (
        in_process.freeze,
        in_process.count,
        in_process.make_plan,
        in_process.write_leaves,
        in_process.make_margins,
        in_process.make_indices,
        in_process.check,
        in_process.commit,
    ):
        step(folder)
    survey.spec_text = nights


CHANGES: dict[str, Callable[[Survey], object]] = OF_NIGHTS | {
    "ingest of all nights": ingest,
}
EVERY_KIND = [
    "first night",
    "second night",
    "crowd",
    "margin",
    "index",
    "replaced night",
    "compaction",
    "rollback",
    "vacuum",
    "ingest of all nights",
]


class Share(NamedTuple):
    """What is done of one kind of catalog: the changes, and after which of them readers look."""

    kind: Kind
    changes: list[str]
    looks: list[str]


NIGHTS = ["first night", "second night", "replaced night", "rollback"]
SOME = [
    Share(Kind("local", "hats", "link", "add_file"), EVERY_KIND, EVERY_KIND[::2]),
    Share(Kind("local", "hats", "reference", "rewrite"), EVERY_KIND, EVERY_KIND[1::2]),
    Share(Kind("local", "hipscat", "copy", "add_file"), EVERY_KIND, EVERY_KIND),
    Share(Kind("s3", "hats", "copy", "rewrite"), NIGHTS, NIGHTS[-1:]),
    Share(Kind("s3", "hipscat", "copy", "add_file"), NIGHTS[:2], NIGHTS[1:2]),
]
IN_CI = (SOME[1], SOME[4])  # a store and local files, both layouts, both ways to append


class Readers(NamedTuple):
    """All of them; Spark where it reaches the files."""

    spark: SparkSession
    newest: Peer
    older: Peer

    def by_spark(self, layout: str, glob: str) -> pa.Table:
        """By the folder or the glob that the README gives Spark."""
        return self.spark.read.parquet(glob.removesuffix("/**/*.parquet")).toArrow()


@pytest.fixture(scope="module")
def readers(spark: SparkSession, newest_peer: Peer, older_peer: Peer) -> Readers:
    return Readers(spark, newest_peer, older_peer)


@pytest.fixture
def survey(tmp_path: Path, kind: Kind, request: pytest.FixtureRequest) -> Survey:
    text = f"append: {kind.append}\nunchanged: {kind.unchanged}\n{GROUPS}"
    if kind.place == "local":
        return Survey(tmp_path, layout=kind.layout, more=text)
    uri = f"{request.getfixturevalue('bucket')}/{uuid.uuid4().hex}"
    threshold = "300 rows" if request.node.get_closest_marker("slow") else "900 rows"  # few files are quick
    return StoreSurvey(tmp_path, threshold, kind.layout, text, uri=uri)


def assert_files_are_the_newest(survey: Survey, kind: Kind, readers: Readers) -> bool:
    """Check what is below `current` and `Catalog.path`; give whether there is anything."""
    catalog = survey.catalog
    try:
        place = catalog.path()
    except TreeNotFoundError:
        if kind.place == "local":
            assert_no_current(survey.root)
        return False
    if kind.place == "local":
        assert_current_is_newest(survey.root, by_pyarrow, readers.newest.by_duckdb)
        assert_same_rows(catalog, f"{survey.root}/current", readers.by_spark)
    else:
        assert_same_rows(catalog, place, by_pyarrow_in_store, readers.newest.by_duckdb)
    return True


def assert_lsdb_reads(catalog: Catalog, lsdb: Peer) -> None:
    """Check what a catalog's root gives, that is its primary group and first margin, and further groups."""
    primary, *further = catalog.groups
    columns = catalog.schema_of(primary).names
    assert rows_of(lsdb.by_lsdb(catalog.uri), columns) == expected_rows(catalog, primary)
    margin = catalog.metadata.margins[0].name
    assert rows_of(lsdb.margin_by_lsdb(catalog.uri), columns) == expected_rows(catalog, margin)
    for group in further:
        found = rows_of(lsdb.by_lsdb(catalog.path(group)), catalog.schema_of(group).names)
        assert found == expected_rows(catalog, group)


def assert_lsdb_opens_nothing(catalog: Catalog, lsdb: Peer) -> None:
    """Check that there is no collection to be opened, and that it is said where the rows are."""
    with pytest.raises(AssertionError, match="FileNotFoundError"):
        lsdb.by_lsdb(catalog.uri)
    note = catalog.storage.read("current.txt").decode()
    assert f"version {catalog.version} of catalog {catalog.name}" in note


def assert_spark_reads(catalog: Catalog, spark: SparkSession) -> None:
    columns = catalog.schema.names
    assert rows_of(catalog.to_spark(spark).toArrow(), columns) == rows_of(catalog.read(), columns)


def look(survey: Survey, kind: Kind, readers: Readers) -> bool:
    """Hold all readers against the newest version; give whether there is a folder of it."""
    newest = survey.catalog
    has_tree = assert_files_are_the_newest(survey, kind, readers)
    if kind.layout == "hats":
        check = assert_lsdb_reads if has_tree else assert_lsdb_opens_nothing
        for lsdb in (readers.newest, readers.older):
            check(newest, lsdb)
    if kind.place == "local":
        assert_spark_reads(newest, readers.spark)
    return has_tree


@pytest.mark.sampled(2)
@pytest.mark.peers
@pytest.mark.parametrize(
    ("kind", "share"),
    [
        pytest.param(each.kind, each, id="-".join(each.kind), marks=() if each in IN_CI else pytest.mark.slow)
        for each in SOME
    ],
)
def test_readers_get_the_newest_version_after_some_commits(
    survey: Survey, kind: Kind, share: Share, readers: Readers
) -> None:
    trees = set()
    for name in share.changes:
        CHANGES[name](survey)
        view(survey)
        if name in share.looks:
            trees.add(look(survey, kind, readers))
    assert trees == ({True, False} if kind.unchanged == "reference" else {True})


@pytest.mark.slow
@pytest.mark.peers
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
def test_readers_get_the_newest_version_after_every_commit(
    survey: Survey, kind: Kind, readers: Readers
) -> None:
    trees = set()
    for change in CHANGES.values():
        change(survey)
        view(survey)
        trees.add(look(survey, kind, readers))
    without = kind.unchanged == "reference" or kind[:3] == ("s3", "hipscat", "link")
    assert trees == ({True, False} if without else {True})
