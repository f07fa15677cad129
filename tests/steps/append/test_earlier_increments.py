"""Catalogs of many nights: metadata.json lists the newest increments, and a sidecar has those before them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hipslake.catalog.checks.findings import ProblemKind
from hipslake.catalog.comparing import VersionKind, compare, summarize
from hipslake.catalog.metadata import CatalogMetadata, Increment, Rejects, SourceEntry, Sources
from hipslake.catalog.metadata.increments import INCREMENT_SCHEMA, Cell
from hipslake.catalog.partitions import Sidecar
from hipslake.errors import CatalogFormatError
from hipslake.steps.ingest import draft
from hipslake.steps.ingest.draft import with_increment
from hipslake.storage.folder import Storage
from hipslake.versions.log import VersionLog

from tests.catalog.leftovers import missing, orphans
from tests.steps.margins import assert_margins_are_exact
from tests.steps.nights import Survey
from tests.system.whole import contents

MOST, AGAIN = 4, 2
MARGIN = "margin: {arcsec: [3600]}"


@pytest.fixture(scope="module", autouse=True)
def few_are_listed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draft, "MOST_LISTED", MOST)
        patch.setattr(draft, "LISTED_AGAIN", AGAIN)
        yield


@pytest.fixture(scope="module")
def seven(few_are_listed: None, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Seven nights; metadata.json lists four of them."""
    survey = Survey(tmp_path_factory.mktemp("seven"), more=MARGIN)
    for number in range(7):
        survey.night(number, rows=60)
    return survey


@pytest.fixture
def survey(seven: Survey, tmp_path: Path) -> Survey:
    """The seven nights, for a test to do with as it likes."""
    shutil.copytree(seven.place, tmp_path, dirs_exist_ok=True, symlinks=True)
    return replace(seven, place=tmp_path, landed=dict(seven.landed))


def told(survey: Survey) -> dict[str, object]:
    """metadata.json, as anybody reads it."""
    document: dict[str, object] = json.loads((survey.root / "metadata.json").read_text())
    return document


def test_the_newest_are_listed_and_the_others_lie_beside(survey: Survey) -> None:
    document = told(survey)
    earlier = document["earlier"]
    table = pq.read_table(survey.root / earlier["path"])
    assert [each["ordinal"] for each in document["increments"]] == [3, 4, 5, 6]
    assert table["ordinal"].to_pylist() == [0, 1, 2]
    assert table["write_id"].to_pylist() == earlier["writes"]
    first = VersionLog(survey.catalog.storage).read(1)
    [alone] = CatalogMetadata.from_json(first).increments
    assert survey.catalog.increments[0] == alone, "nothing of it is lost"
    survey.assert_holds_what_landed()
    assert survey.catalog.metadata.rows_read == 7 * 60
    assert survey.catalog.metadata.source_files(survey.catalog.storage).num_rows == 14


def test_metadata_stays_as_long_as_it_is(survey: Survey) -> None:
    lengths = []
    for number in range(7, 12):
        survey.night(number, rows=60)
        document = told(survey)
        lengths.append(len(document["increments"]))
        assert len(document["earlier"]["writes"]) + lengths[-1] == number + 1
    assert max(lengths) == MOST
    survey.assert_holds_what_landed()


@pytest.mark.parametrize("number", [1, 5])
def test_any_night_is_replaced(survey: Survey, number: int) -> None:
    before = survey.catalog
    report = survey.night(number, rows=50, seed=4)
    survey.assert_holds_what_landed()
    assert_margins_are_exact(survey.catalog)
    assert (report.replaced_rows, report.ordinal) == (60, number)
    assert [each.ordinal for each in survey.catalog.increments] == list(range(7))
    after = survey.catalog
    diff = compare(after.storage, before.metadata, after.metadata)
    assert [each.rows for each in diff.increments_added] == [50]
    assert [each.rows for each in diff.increments_removed] == [60]
    summary = summarize(after.storage, after.metadata, before.metadata)
    assert summary.kind is VersionKind.APPENDED
    assert [(each.ordinal, each.rows) for each in summary.increments_added] == [(number, 50)]


def test_a_rollback_brings_them_back(survey: Survey) -> None:
    old = survey.catalog.increments
    survey.night(1, rows=50, seed=4)
    survey.catalog.rollback(7)
    assert survey.catalog.increments == old
    survey.catalog.rollback(2)
    assert len(survey.catalog.increments) == 2
    assert survey.catalog.metadata.earlier is None
    survey.landed = {number: survey.landed[number] for number in (0,)}
    survey.night(1, rows=30)
    survey.assert_holds_what_landed()


def test_a_vacuum_keeps_what_they_name(survey: Survey) -> None:
    for number in (7, 8):
        survey.night(number, rows=60)
    survey.catalog.vacuum(keep_versions=1, keep_days=0, dry_run=False)
    survey.assert_holds_what_landed()
    assert_margins_are_exact(survey.catalog)
    assert missing(survey.root) == set()
    assert orphans(survey.root) == set()
    sidecars = [path for path in contents(survey.root) if path.endswith("_sidecars/increments.parquet")]
    assert sidecars == [survey.catalog.metadata.earlier.path], "those of old versions are gone"
    survey.night(0, rows=20, seed=8)
    survey.assert_holds_what_landed()


def test_rows_are_read_without_the_sidecar_and_verifying_tells_that_it_is_lost(survey: Survey) -> None:
    rows = survey.catalog.read()
    path = survey.catalog.metadata.earlier.path
    (survey.root / path).unlink()
    catalog = survey.catalog
    assert catalog.read().equals(rows)
    [problem] = catalog.verify().problems
    assert (problem.kind, problem.path) == (ProblemKind.UNREADABLE, path)


def test_a_changed_sidecar_is_told(survey: Survey) -> None:
    path = survey.catalog.metadata.earlier.path
    table = pq.read_table(survey.root / path)
    pq.write_table(table.slice(0, 2), survey.root / path)
    with pytest.raises(CatalogFormatError, match="sha256 differs"):
        _ = survey.catalog.increments
    [problem] = survey.catalog.verify().problems
    assert (problem.kind, problem.path) == (ProblemKind.UNREADABLE, path)


@pytest.mark.parametrize("name", ["total_rows", "rows_read", "rows_rejected"])
def test_a_wrong_sum_is_told(survey: Survey, name: str) -> None:
    catalog = survey.catalog
    earlier = catalog.metadata.earlier
    wrong = earlier.model_copy(update={name: getattr(earlier, name) + 1})
    catalog.metadata = catalog.metadata.model_copy(update={"earlier": wrong})
    assert [problem.kind for problem in catalog.verify().problems] == [ProblemKind.TOTALS]


def test_they_are_what_was_added_whatever_the_order(tmp_path: Path) -> None:
    storage, rng = Storage.at(tmp_path), np.random.default_rng(5)
    standing: dict[str, Increment] = {}
    base = made(tmp_path)
    ordinals = iter(rng.permutation(200).tolist())  # those that claim first may commit last
    for at in range(120):
        key = f"night {rng.integers(60)}"
        ordinal = standing[key].ordinal if key in standing else next(ordinals)
        increment = random_increment(rng, key, ordinal, f"20261122T0000-{at:012x}")
        standing[key] = increment
        found = with_increment(base, increment, storage)
        base = base.model_copy(update={"earlier": found.earlier, "increments": found.listed})
        base = CatalogMetadata.from_json(base.to_json())
        expected = tuple(sorted(standing.values(), key=lambda each: each.ordinal))
        assert base.all_increments(storage) == expected
        assert len(base.increments) <= MOST
        assert found.total_rows == sum(each.rows for each in expected)
        assert base.increment(key, storage) == increment
        assert base.rows_rejected == sum(each.rejects.rows for each in expected)
        assert base.increment_writes == tuple(sorted(each.write_id for each in expected))
    for each in standing.values():
        assert base.increments_of([each.write_id], storage) == [each]


def made(place: Path) -> CatalogMetadata:
    """Metadata of a catalog, but for its increments."""
    survey = Survey(place / "made")
    survey.night(0, rows=5)
    return survey.catalog.metadata.model_copy(update={"increments": (), "earlier": None})


def random_increment(rng: np.random.Generator, key: str, ordinal: int, write_id: str) -> Increment:
    """An increment of any of the forms that there are."""
    sidecar = Sidecar(path=f"{write_id}/_sidecars/coverage.parquet", rows=3, sha256="0" * 64)
    entries = tuple(
        SourceEntry(uri=f"s3://a/{n}", size=n, stamp="é", rows=n) for n in range(int(rng.integers(3)))
    )
    beside = rng.random() < 0.3
    by_leaf = bool(rng.random() < 0.5)
    where = (
        {"coverage": sidecar, "by_leaf": True if by_leaf else None}
        if rng.random() < 0.6
        else {"leaves": (Cell(order=1, npix=3, rows=2),)}
    )
    return Increment(
        ordinal=ordinal,
        key=key,
        end=None if rng.random() < 0.3 else "2026-11-22",
        rows=int(rng.integers(1 << 40)),
        write_id=write_id,
        fingerprint=f"{rng.integers(1 << 60):x}",
        sources=Sources(
            files=3,
            rows=int(rng.integers(1 << 40)),
            bytes=4,
            entries=None if beside else entries,
            sidecar=sidecar if beside else None,
        ),
        rejects=Rejects()
        if rng.random() < 0.5
        else Rejects(rows=7, path=f"{write_id}/_rejects", reasons={"ra null": 3, "dec null": 4}),
        **where,
    )


def test_the_sidecar_has_a_place_for_all_that_metadata_tells_of_an_increment() -> None:
    told, stored = leaves_of(Increment.model_json_schema()), columns_of(INCREMENT_SCHEMA)
    assert stored == told, "what has no column is lost once a night is set aside"


def leaves_of(schema: dict[str, Any], node: dict[str, Any] | None = None, place: str = "") -> set[str]:
    """The keys that hold plain values or texts with counts, with the keys above them."""
    node = schema if node is None else node
    if "$ref" in node:
        return leaves_of(schema, schema["$defs"][node["$ref"].rpartition("/")[2]], place)
    nested = [*node.get("anyOf", ()), *([node["items"]] if "items" in node else ())]
    found = {path for each in nested for path in leaves_of(schema, each, place)}
    for name, each in node.get("properties", {}).items():
        found |= leaves_of(schema, each, f"{place}.{name}") or {f"{place}.{name}"}
    return found


def columns_of(fields: Iterable[pa.Field], place: str = "") -> set[str]:
    found = set()
    for field in fields:
        kind, path = field.type, f"{place}.{field.name}"
        kind = kind.value_type if pa.types.is_list(kind) else kind
        found |= columns_of(kind.fields, path) if pa.types.is_struct(kind) else {path}
    return found
