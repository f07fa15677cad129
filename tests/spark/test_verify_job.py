"""Verification in Spark finds what verification in one process finds, and passes what is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.errors import VerificationError
from hipslake.steps.ingest.draft import draft_version
from hipslake.steps.ingest.request import WriteReport
from hipslake.steps.run import RunFolder
from hipslake.steps.upkeep import verify
from hipslake.steps.upkeep import verify_tasks as in_spark
from hipslake.steps.upkeep.pointers import point_at_newest
from hipslake.steps.upkeep.request import VerifyReport, VerifyRequest
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog
from pyspark.sql import SparkSession

from tests.spark.running import Run, land, stars, uniform

GROUPS = [
    {"name": "main", "columns": ["id", "ra", "dec"], "threshold": "150 rows"},
    {"name": "photo", "columns": "*", "threshold": "400 rows"},
]

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
    return in_spark.run(request, run.engine) if by_spark else verify.run(request)


def findings(run: Run, *, by_spark: bool) -> set[tuple[str, str]]:
    """Kind and path of every problem."""
    report = run.folder.read(RunFolder.report_path("write"), WriteReport)
    with pytest.raises(VerificationError):
        verified(run, by_spark=by_spark)
    found = run.folder.read(RunFolder.FINDINGS, verify.VerificationReport)
    run.keep(report)
    return {(problem.kind.value, problem.path) for problem in found.problems}


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


@pytest.mark.parametrize("spoil", DAMAGES, ids=lambda spoil: spoil.__name__)
def test_damage_is_found_as_in_one_process(written: Run, spoil: Callable[[Run], None]) -> None:
    spoil(written)
    found = findings(written, by_spark=True)
    assert DAMAGES[spoil] <= {kind for kind, _ in found}
    assert found == findings(written, by_spark=False)


def test_every_problem_is_found_not_only_the_first(written: Run) -> None:
    remove(written)
    truncate(written)
    add(written)
    kinds = {kind for kind, _ in findings(written, by_spark=True)}
    assert {"missing file", "unreadable", "extra file"} <= kinds


def test_a_published_version_is_verified_by_its_uri(written: Run) -> None:
    run = written.folder.run()
    catalog = Storage.at(run.catalog_uri)
    metadata = draft_version(written.folder, version=1, parent=None)
    VersionLog(catalog).commit(1, metadata.to_json(), run.write_id)
    point_at_newest(catalog)
    asked = VerifyRequest(run_uri=f"{written.folder.uri}-check", catalog_uri=run.catalog_uri)
    report = in_spark.run(asked, written.engine)
    assert (report.version, report.rows_out) == (1, 1999)
    remove(written)
    with pytest.raises(VerificationError, match="missing file"):
        in_spark.run(asked, written.engine)
