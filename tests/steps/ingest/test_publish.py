"""A whole run: nothing is seen before the commit, and everything after it; again and again the same."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hipslake import Catalog
from hipslake.errors import CatalogFormatError, ConflictError, SourceNotFoundError, VerificationError
from hipslake.steps.frozen_run import FrozenInputs, FrozenRun
from hipslake.steps.run import RunFolder
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.steps.in_process import (
    check,
    commit,
    count,
    freeze,
    ingest,
    make_plan,
    show,
    start,
    write_leaves,
    write_spec,
)


def written(warehouse: Path, spec_file: Path, run_id: str = "first") -> RunFolder:
    folder = start(warehouse, spec_file, run_id)
    for step in (freeze, count, make_plan, write_leaves):
        step(folder)
    return folder


def visible(catalog: Path) -> set[str]:
    """What readers look at."""
    names = ("metadata.json", "collection.properties", "current", "SHA256SUMS", "_versions/00000001.json")
    return {name for name in names if (catalog / name).exists()}


@pytest.fixture
def catalog(warehouse: Path) -> Path:
    return warehouse / "catalogs" / "stars"


def test_the_published_rows_are_those_of_the_source(
    warehouse: Path, spec_file: Path, source: pa.Table, catalog: Path
) -> None:
    ingest(start(warehouse, spec_file))
    found = ds.dataset(catalog / "current" / "main" / "dataset", partitioning=None).to_table()
    assert found.sort_by("id").select(source.schema.names).equals(source)


def test_no_reader_sees_anything_before_the_commit(warehouse: Path, spec_file: Path, catalog: Path) -> None:
    folder = written(warehouse, spec_file)
    check(folder)
    assert visible(catalog) == set()
    commit(folder)
    assert visible(catalog) == {"metadata.json", "current", "SHA256SUMS", "_versions/00000001.json"}
    show(folder)
    assert "collection.properties" in visible(catalog)


def test_sha256sums_pass_sha256sum(warehouse: Path, spec_file: Path, catalog: Path) -> None:
    ingest(start(warehouse, spec_file))
    done = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=catalog, check=False)
    assert done.returncode == 0


def test_metadata_says_what_was_done(warehouse: Path, spec_file: Path, catalog: Path, tmp_path: Path) -> None:
    folder = start(warehouse, spec_file, window={"start": "2026-11-20T00:00:00Z", "origin": "params"})
    ingest(folder)
    metadata = json.loads((catalog / "metadata.json").read_text())
    assert metadata["total_rows"] == 3000
    assert metadata["fingerprint"] == FrozenInputs.of(folder).fingerprint
    assert metadata["spec"]["threshold"] == "200 rows"
    assert [entry["rows"] for entry in metadata["increments"][0]["sources"]["entries"]] == [1000, 1000, 1000]
    [increment] = metadata["increments"]
    assert {name: increment[name] for name in ("ordinal", "rows", "write_id")} == {
        "ordinal": 0,
        "rows": 3000,
        "write_id": metadata["write_id"],
    }
    assert "key" not in increment  # it is the whole, not what came in the run's interval
    assert "parent" not in metadata


def test_an_unverified_run_is_not_published(warehouse: Path, spec_file: Path, catalog: Path) -> None:
    folder = written(warehouse, spec_file)
    with pytest.raises(VerificationError, match="was not verified"):
        commit(folder)
    assert visible(catalog) == set()


def test_a_damaged_leaf_is_not_published_and_the_write_is_done_again(
    warehouse: Path, spec_file: Path, catalog: Path
) -> None:
    folder = written(warehouse, spec_file)
    leaf = next((catalog / FrozenRun.of(folder).write_id).rglob("Npix=*.parquet"))
    good = leaf.read_bytes()
    leaf.write_bytes(good[:-7])
    with pytest.raises(VerificationError, match=leaf.name):
        check(folder)
    with pytest.raises(VerificationError):
        commit(folder)
    assert visible(catalog) == set()
    assert not write_leaves(folder).reused
    check(folder)
    commit(folder)
    assert hashlib.sha256(leaf.read_bytes()).digest() == hashlib.sha256(good).digest()


def test_publishing_twice_leaves_one_version(warehouse: Path, spec_file: Path, catalog: Path) -> None:
    folder = start(warehouse, spec_file)
    ingest(folder)
    folder.storage.delete(RunFolder.report_path("publish"))  # as if killed between the commit and the report
    before = (catalog / "metadata.json").read_bytes()
    assert commit(folder).version == 1
    assert VersionLog(Storage.at(catalog)).numbers() == [1]
    assert (catalog / "metadata.json").read_bytes() == before


def test_a_publish_that_is_never_first_gives_up_and_may_be_tried_again(
    warehouse: Path, spec_file: Path, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(warehouse, spec_file)
    check(folder)
    with monkeypatch.context() as others:
        others.setattr(VersionLog, "commit", lambda *_, **__: "conflict")
        with pytest.raises(ConflictError, match="committed first 100 times") as caught:
            commit(folder)
    assert caught.value.retryable
    assert visible(catalog) == set()
    assert commit(folder).version == 1


def test_a_publish_killed_after_its_commit_is_mended_by_the_next_view(
    warehouse: Path, spec_file: Path, catalog: Path
) -> None:
    folder = start(warehouse, spec_file)
    ingest(folder)
    for name in ("metadata.json", "collection.properties", "SHA256SUMS", "current"):
        (catalog / name).unlink()
    following = start(warehouse, spec_file, "second")
    assert freeze(following).unchanged_version == 1
    show(following)
    assert len(visible(catalog)) == 5


def test_the_same_input_again_is_nothing_to_do_unless_forced(
    warehouse: Path, spec_file: Path, catalog: Path
) -> None:
    ingest(start(warehouse, spec_file))
    assert freeze(start(warehouse, spec_file, "second")).unchanged_version == 1
    forced = start(warehouse, spec_file, "third", force=True)
    assert freeze(forced).unchanged_version is None
    ingest(forced)
    metadata = json.loads((catalog / "metadata.json").read_text())
    assert (metadata["version"], metadata["parent"]) == (2, 1)


def test_a_run_with_nothing_to_do_leaves_no_folder_that_waits_for_its_next_step(
    warehouse: Path, spec_file: Path, catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(start(warehouse, spec_file))
    idle, waiting = start(warehouse, spec_file, "second"), start(warehouse, spec_file, "third", force=True)
    freeze(idle)
    for step in (freeze, count, make_plan, write_leaves):
        step(waiting)
    monkeypatch.setenv("HIPSLAKE_STALE_SECONDS", "0")
    start(warehouse, spec_file, "fourth")
    assert not (catalog / FrozenRun.of(idle).write_id).exists()
    assert (catalog / FrozenRun.of(waiting).write_id).exists()


@pytest.mark.parametrize("change", ["a file's content", "a new file", "the threshold"])
def test_changed_input_is_something_to_do(
    warehouse: Path, spec_file: Path, tmp_path: Path, change: str
) -> None:
    ingest(start(warehouse, spec_file))
    part = tmp_path / "landing" / "part-2.parquet"
    if change == "a file's content":
        pq.write_table(pq.read_table(part).slice(1), part)
    elif change == "a new file":
        (tmp_path / "landing" / "part-3.parquet").write_bytes(part.read_bytes())
    else:
        write_spec(spec_file, f"{tmp_path}/landing/*.parquet", threshold="150 rows")
    assert freeze(start(warehouse, spec_file, "second")).unchanged_version is None


def test_two_runs_give_the_same_leaf_files(warehouse: Path, spec_file: Path, catalog: Path) -> None:
    digests = []
    for run_id in ("first", "second"):
        ingest(start(warehouse, spec_file, run_id, force=True))
        metadata = json.loads((catalog / "metadata.json").read_text())
        digests.append(
            {
                (leaf["order"], leaf["npix"]): leaf["sha256"]
                for group in metadata["groups"]
                for leaf in group["partitions"]
            }
        )
    assert digests[0] == digests[1]


def test_a_later_version_in_another_layout_takes_the_hats_pointer_away(
    warehouse: Path, spec_file: Path, catalog: Path
) -> None:
    ingest(start(warehouse, spec_file))
    ingest(start(warehouse, spec_file, "second", layout="hipscat"))
    assert "collection.properties" not in visible(catalog)
    assert json.loads((catalog / "metadata.json").read_text())["version"] == 2


def test_rows_that_the_steps_disagree_about_are_not_published(
    warehouse: Path, spec_file: Path, catalog: Path
) -> None:
    folder = written(warehouse, spec_file)
    path = RunFolder.report_path("write")
    report = json.loads(folder.storage.read(path))
    folder.storage.write(path, json.dumps(report | {"rows_out": 2999, "rows_rejected": 1}).encode())
    with pytest.raises(VerificationError, match="says 2999 rows"):
        check(folder)


def test_no_file_that_matches_is_an_error_that_names_the_pattern(warehouse: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "stars.yaml", f"{tmp_path}/nowhere/*.parquet")
    with pytest.raises(SourceNotFoundError, match="nowhere"):
        freeze(start(warehouse, spec))


def test_a_version_that_is_damaged_is_replaced_by_the_next_ingest(
    warehouse: Path, spec_file: Path, catalog: Path, tmp_path: Path
) -> None:
    ingest(start(warehouse, spec_file))
    damaged = json.loads((catalog / "metadata.json").read_text()) | {"total_rows": "many"}
    for name in ("metadata.json", "_versions/00000001.json"):
        (catalog / name).write_text(json.dumps(damaged))
    with pytest.raises(CatalogFormatError, match="total_rows"):
        Catalog.open(catalog)
    write_spec(spec_file, f"{tmp_path}/landing/*.parquet", threshold="150 rows")
    ingest(start(warehouse, spec_file, "second"))
    assert Catalog.open(catalog).version == 2
