"""Verification in Spark finds what verification in one process finds, and passes what is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.verification import verify_catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.errors import VerificationError
from hipslake.spark.engine import SparkEngine
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest.draft import draft_version
from hipslake.steps.ingest.request import WriteReport
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep import verify
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.steps.upkeep.request import VerifyReport, VerifyRequest
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from pyspark.sql import SparkSession

from tests.catalog import conftest as catalogs
from tests.catalog.eventful import mostly
from tests.catalog.publishing import Published
from tests.catalog.test_every_damage import Damaged, kinds_of_files, rotated, unnoticed
from tests.catalog.verifying import column_set, leaves, rewrite
from tests.spark.running import Run, land, stars, uniform
from tests.steps.nights import Survey

pytestmark = pytest.mark.sampled(2)

GROUPS = [
    {"name": "main", "columns": ["id", "ra", "dec"], "threshold": "150 rows"},
    {"name": "photo", "columns": "*", "threshold": "400 rows"},
]

templates, grouped = catalogs.templates, catalogs.grouped
eventful_templates, history = catalogs.eventful_templates, catalogs.history

Written = tuple[Run, WriteReport, dict[str, bytes]]


@pytest.fixture(scope="module")
def pristine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A run that has written, and its files."""
    place = tmp_path_factory.mktemp("verify")
    ra, dec = uniform(2000)
    ra[3] = np.nan
    land(place, stars(ra, dec))
    run = Run.start(spark, place, column_groups=GROUPS, bad_rows={"policy": "quarantine"})
    run.count()
    run.plan()
    return run, run.write(), run.contents()


@pytest.fixture
def written(pristine: Written) -> Run:
    """The run, with its files as they were written."""
    run, report, contents = pristine
    for name in run.contents().keys() - contents.keys():
        (run.root / name).unlink()
    for name, data in contents.items():
        (run.root / name).write_bytes(data)
    run.keep(report)
    return run


def verified(run: Run, *, by_spark: bool) -> VerifyReport:
    request = VerifyRequest(run_uri=run.folder.uri)
    return verify.run(request, run.engine if by_spark else ThisProcess())


def findings(run: Run, *, by_spark: bool) -> dict[str, Any]:
    """The whole report, but for how long it took."""
    report = run.folder.read(RunFolder.report_path("write"), WriteReport)
    with pytest.raises(VerificationError):
        verified(run, by_spark=by_spark)
    found = run.folder.read(RunFolder.FINDINGS, verify.VerificationReport)
    run.keep(report)
    return found.model_dump(exclude={"seconds"})


def kinds(found: dict[str, Any]) -> set[str]:
    return {problem["kind"] for problem in found["problems"]}


def test_what_was_written_is_whole(written: Run) -> None:
    report = verified(written, by_spark=True)
    plain = verified(written, by_spark=False)
    assert (report.rows_in, report.rows_out) == (1999, 1999)
    ours, theirs = (found.model_dump(exclude={"seconds", "finished"}) for found in (report, plain))
    assert ours == theirs
    assert report.files == len(written.leaf_files("main")) + len(written.leaf_files("photo"))
    assert not Path(written.folder.uri, "verify", "work.arrow").exists()


def swap(run: Run) -> None:
    first, second, *_ = run.leaf_files("main").values()
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)


def truncate(run: Run) -> None:
    path = next(iter(run.leaf_files("photo").values()))
    path.write_bytes(path.read_bytes()[:-40])


def turn_round(run: Run) -> None:
    path = next(iter(run.leaf_files("main").values()))
    table = pq.ParquetFile(path).read()
    pq.write_table(table.take(pa.array(range(len(table) - 1, -1, -1))), path)


def lose_a_row(run: Run) -> None:
    path = next(iter(run.leaf_files("photo").values()))
    pq.write_table(pq.ParquetFile(path).read().slice(1), path)


def damage(run: Run) -> None:
    path = next(iter(run.leaf_files("photo").values()))
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 100] = bytes(100)
    path.write_bytes(data)


def remove(run: Run) -> None:
    next(iter(run.leaf_files("main").values())).unlink()


def add(run: Run) -> None:
    path = next(iter(run.leaf_files("main").values()))
    path.with_name("Npix=9999.parquet").write_bytes(path.read_bytes())


DAMAGES: dict[Callable[[Run], None], set[str]] = {
    swap: {"swapped file", "checksum", "pixel membership"},
    truncate: {"size", "checksum", "unreadable"},
    turn_round: {"checksum", "sort order"},
    lose_a_row: {"row count", "totals", "row sets"},
    damage: {"checksum"},
    remove: {"missing file"},
    add: {"extra file"},
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("spoil", DAMAGES, ids=lambda spoil: spoil.__name__)
def test_damage_is_found_as_in_one_process(written: Run, spoil: Callable[[Run], None]) -> None:
    spoil(written)
    found = findings(written, by_spark=True)
    assert DAMAGES[spoil] <= kinds(found)
    assert found == findings(written, by_spark=False)


def test_every_problem_is_found_not_only_the_first(written: Run) -> None:
    remove(written)
    truncate(written)
    add(written)
    assert {"missing file", "unreadable", "extra file"} <= kinds(findings(written, by_spark=True))


def test_a_published_version_is_verified_by_its_uri(written: Run) -> None:
    run = FrozenRun.of(written.folder)
    catalog = Storage.at(run.catalog_uri)
    metadata = draft_version(written.folder)
    VersionLog(catalog).commit(1, metadata.to_json(), run.write_id)
    point_at_newest(catalog)
    asked = VerifyRequest(run_uri=f"{written.folder.uri}-check", catalog_uri=run.catalog_uri)
    report = verify.run(asked, written.engine)
    assert (report.version, report.rows_out) == (1, 1999)
    remove(written)
    with pytest.raises(VerificationError, match="missing file"):
        verify.run(asked, written.engine)


def stolen(published: Published) -> int:
    """The `_row` of the first row of the first leaf."""
    path = published.storage.uri(leaves(published)[0]["path"])
    row: int = pq.read_table(path, partitioning=None)["_row"][0].as_py()
    return row


ROW_DAMAGES: dict[str, tuple[Callable[[Published], Published], set[str]]] = {
    "whole": (lambda it: it, set()),
    "row numbers that two leaves share": (
        lambda it: rewrite(it, {("main", 1): column_set("_row", lambda r: np.append(r[:-1], stolen(it)))}),
        {"duplicate row", "row sets"},
    ),
    "a row twice in a leaf": (
        lambda it: rewrite(it, {("main", 1): lambda t: pa.concat_tables([t.slice(0, 1), t])}),
        {"duplicate row", "totals"},
    ),
    "rows that one group lacks": (
        lambda it: rewrite(it, {("details", 2): lambda t: t.slice(5)}),
        {"row sets", "totals"},
    ),
    "a row of no increment": (
        lambda it: rewrite(it, {("main", 1): column_set("_row", lambda r: np.append(r[:-1], 5 << 40))}),
        {"row identity"},
    ),
    "rows elsewhere in one group": (
        lambda it: rewrite(
            it, {("details", 3): column_set("_healpix_29", lambda h: np.append(h[:-1], h[-1] + 1))}
        ),
        {"row sets"},
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("what", ROW_DAMAGES)
@pytest.mark.parametrize("rejected", [0, 3])
def test_wrong_rows_are_told_alike(
    spark: SparkSession, grouped: Published, tmp_path: Path, what: str, rejected: int
) -> None:
    """Rewritten leaves, whose metadata agrees with them: only their rows can show it."""
    spoil, expected = ROW_DAMAGES[what]
    damaged = spoil(grouped)
    [increment] = damaged.metadata.increments
    rejects = increment.rejects.model_copy(update={"rows": rejected})
    metadata = damaged.metadata.model_copy(
        update={"increments": (increment.model_copy(update={"rejects": rejects}),)}
    )
    here = verify_catalog(damaged.storage, metadata)
    scratch = Storage.at(tmp_path / "scratch")
    there = verify_catalog(damaged.storage, metadata, SparkEngine(spark), scratch=scratch)
    assert expected <= kinds(here.model_dump())
    assert here.model_dump(exclude={"seconds"}) == there.model_dump(exclude={"seconds"})


@mostly("hipscat")
@pytest.mark.parametrize("first", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_every_kind_of_damage_of_all_versions_is_told_alike(
    spark: SparkSession, history: Survey, tmp_path: Path, first: int
) -> None:
    """Files of every kind: those that can be damaged together, and a few of the others."""
    groups = list(kinds_of_files(history.root).values())
    chosen = [names for names in groups if len(names) > 1]
    chosen += [names for number, names in enumerate(groups) if len(names) == 1 and number % 12 == first]
    scratch = Storage.at(tmp_path / "scratch")
    for number, names in enumerate(chosen):
        damages = rotated(names, first + number)
        with Damaged(history.root, damages):
            here, there = (
                verify.verify_published(
                    history.catalog.storage,
                    history.catalog.metadata,
                    engine,
                    all_versions=True,
                    scratch=folder,
                )
                for engine, folder in ((ThisProcess(), None), (SparkEngine(spark), scratch))
            )
        assert here.problems or all(unnoticed(name, kind) for name, kind in damages.items())
        assert here.model_dump(exclude={"seconds"}) == there.model_dump(exclude={"seconds"})
