"""By `current`, plain readers get exactly the newest version whatever was done, or no part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hipslake.steps.report import perform
from hipslake.steps.upkeep import rollback_catalog
from hipslake.steps.upkeep.request import HatsViewReport, RollbackReport, RollbackRequest

from tests.readers.outside import (
    assert_current_is_newest,
    assert_current_is_whole,
    assert_no_current,
    by_pyarrow,
    rows_of,
)
from tests.readers.peer import Peer, running_peer
from tests.steps import in_process
from tests.steps.nights import Survey

GROUPS = """\
column_groups:
  - {name: main, columns: [id, ra, dec]}
  - {name: details, columns: '*', threshold: 500 rows}
margin: {arcsec: [3600]}
index: [id]
"""


class Kind(NamedTuple):
    """Of a catalog."""

    layout: str
    unchanged: str
    append: str


KINDS = [
    Kind(layout, unchanged, append)
    for layout in ("hats", "hipscat")
    for unchanged in ("link", "copy", "reference")
    for append in ("rewrite", "add_file")
]


@pytest.fixture(scope="module")
def peer(peers_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with running_peer(peers_python, tmp_path_factory.mktemp("answers")) as process:
        yield process


def made(place: Path, kind: Kind, more: str = "") -> Survey:
    text = f"append: {kind.append}\nunchanged: {kind.unchanged}\n{more}"
    return Survey(place, layout=kind.layout, more=text)


def view(survey: Survey) -> HatsViewReport:
    """The last step of every DAG of the catalog."""
    return in_process.show(survey.begin())


def roll_back(survey: Survey, version: int) -> None:
    request = RollbackRequest(run_uri=survey.begin().uri, version=version)
    perform(rollback_catalog.run, request, RollbackReport)


CHANGES: dict[str, Callable[[Survey], object]] = {
    "first night": lambda survey: survey.night(0),
    "second night": lambda survey: survey.night(1),
    "crowd": lambda survey: survey.night(2, rows=900),  # leaves are split
    "margin": lambda survey: in_process.make_margins(survey.begin(), arcsec=(60.0,)),
    "index": lambda survey: in_process.make_indices(survey.begin(), published=True),
    "replaced night": lambda survey: survey.night(1, rows=300, seed=1),
    "compaction": lambda survey: survey.compact(min_files=2),
    "night after it": lambda survey: survey.night(3, rows=100),
    "rollback": lambda survey: roll_back(survey, 2),
    "night after that": lambda survey: survey.night(4, rows=50),
    "vacuum": lambda survey: survey.catalog.vacuum(keep_versions=2, keep_days=0, dry_run=False),
    "empty night": lambda survey: survey.night(5, rows=0),
    "another margin": lambda survey: survey.catalog.build_margin(120.0),
    "rollback in this process": lambda survey: survey.catalog.rollback(survey.catalog.version - 1),
    "vacuum of all": lambda survey: survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False),
}


HISTORIES = {
    "-".join([*kind, "groups" if more else "one"]): (kind, more)
    for kind in KINDS
    for more in (GROUPS, "")
    if more or kind.unchanged == "link"
}
QUICK = {  # each layout, mode, and way of appending; all crossed by `make test-slow`
    "hats-copy-add_file-groups",
    "hats-reference-rewrite-groups",
    "hipscat-link-rewrite-one",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        pytest.param(*each, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, each in HISTORIES.items()
    ],
)
def test_by_current_plain_readers_get_the_newest_version_whatever_was_done(
    tmp_path: Path, kind: Kind, more: str, peer: Peer
) -> None:
    survey = made(tmp_path, kind, more)
    readers = (by_pyarrow, peer.by_duckdb)
    reached = []
    for name, change in CHANGES.items():
        change(survey)
        assert_current_is_whole(survey.root)  # of the version before, or none at all
        view(survey)
        own = {path.split("/")[0] for table in survey_tables(survey) for path in table} == {
            survey.catalog.metadata.write_id
        }
        if kind.unchanged != "reference" or own:
            assert_current_is_newest(survey.root, *readers)
            assert all(
                (survey.root / "current" / "_skymaps" / f"{each}.png").exists() for each in groups(survey)
            )
            if kind.layout == "hats" and name in ("margin", "compaction", "rollback"):
                assert_lsdb_reads_it(survey, peer)
            reached.append(name)
        else:
            assert_no_current(survey.root)
        survey.catalog.verify().raise_if_failed()
    assert len(reached) == len(CHANGES) or (kind.unchanged == "reference" and reached)


def groups(survey: Survey) -> list[str]:
    return survey.catalog.groups


def assert_lsdb_reads_it(survey: Survey, peer: Peer) -> None:
    """By the catalog's root the primary group, and by `current` each of them."""
    catalog = survey.catalog
    for group in groups(survey):
        places = [
            f"{survey.root}/current/{group}",
            *([str(survey.root)] if group == catalog.groups[0] else []),
        ]
        names = [name for name in catalog.schema_of(group).names if name != "_healpix_29"]
        for place in places:
            found = peer.by_lsdb(place)
            assert rows_of(found, names) == rows_of(catalog.read(group=group), names)


def survey_tables(survey: Survey) -> list[list[str]]:
    """The paths of the leaf files of the newest version, per group and margin."""
    catalog = survey.catalog
    return [each.table(catalog.storage)["path"].to_pylist() for each in catalog.metadata.with_files]
