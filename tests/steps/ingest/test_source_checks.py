"""Inputs: whether the files have the columns that the spec names is said before a row of them is counted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
import yaml
from astropy.table import Table
from hipslake.errors import (
    CorruptFileError,
    HipslakeError,
    InputError,
    ReservedColumnError,
    SchemaMismatchError,
    SpecError,
)
from hipslake.sources.source_file import SourceFile
from hipslake.sources.source_reader import DescribedSource
from hipslake.steps.ingest import inputs
from hipslake.steps.ingest.source_checks import MOST_FILES, check_source, spread
from hipslake.steps.run import RunFolder

from tests.steps import in_process
from tests.steps.nights import Survey, night_rows

FORMATS = ["parquet", "fits", "votable", "ecsv", "csv"]


def columns(rows: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    return {
        "id": np.arange(rows),
        "ra": rng.uniform(0, 360, rows),
        "dec": rng.uniform(-90, 90, rows),
        "mag": rng.normal(12, 2, rows) + 0.123,
        "name": [f"star {number}" for number in range(rows)],
    }


def land(landing: Path, kind: str, table: dict[str, Any], name: str = "a") -> Path:
    landing.mkdir(exist_ok=True)
    path = landing / f"{name}.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(table), path)
    elif kind == "csv":
        pcsv.write_csv(pa.table(table), path)
    else:
        Table(table).write(path, format={"ecsv": "ascii.ecsv"}.get(kind, kind))
    return path


def started(place: Path, kind: str, **spec: Any) -> RunFolder:
    path = place / "stars.yaml"
    given: dict[str, Any] = {
        "name": "stars",
        "source": {"uri": f"{place}/landing/*", "format": kind},
        "position": {"ra": "ra", "dec": "dec"},
        "mapping_order": 4,
    }
    path.write_text(yaml.safe_dump(given | spec))
    return in_process.start(place / "warehouse", path)


def groups(*named: str) -> list[dict[str, Any]]:
    return [{"name": "main", "columns": "*"}, {"name": "seen", "columns": list(named)}]


MISTAKES: dict[str, tuple[dict[str, Any], type[HipslakeError], str]] = {
    "dec": (
        {"position": {"ra": "ra", "dec": "decl"}},
        SchemaMismatchError,
        r"position\.dec .* no column 'decl'; did you mean 'dec'\?",
    ),
    "text as dec": (
        {"position": {"ra": "ra", "dec": "name"}},
        SchemaMismatchError,
        r"position\.dec .* 'name' has type \w*string",
    ),
    "float index": ({"index": ["mag"]}, SchemaMismatchError, r"index: column 'mag' is (double|float)"),
    "index": ({"index": ["idd"]}, SchemaMismatchError, r"index: .* no column 'idd' \(did you mean 'id'\?\)"),
    "marks": ({"co_partitioned": ["mag"]}, SchemaMismatchError, r"co_partitioned: column 'mag' is"),
    "group": ({"column_groups": groups("magg")}, SchemaMismatchError, r"'seen': .* no column 'magg'"),
}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_column_that_the_spec_names_wrongly_is_told_by_inputs(
    tmp_path: Path, kind: str, mistake: str
) -> None:
    land(tmp_path / "landing", kind, columns())
    spec, error, message = MISTAKES[mistake]
    with pytest.raises(error, match=message):
        in_process.freeze(started(tmp_path, kind, **spec))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_column_that_catalogs_keep_for_themselves_is_told_by_inputs(tmp_path: Path, kind: str) -> None:
    land(tmp_path / "landing", kind, columns() | {"_row": np.arange(40)})
    with pytest.raises(ReservedColumnError, match="_row"):
        in_process.freeze(started(tmp_path, kind))


def test_a_file_that_is_none_of_its_format_is_told_by_inputs(tmp_path: Path) -> None:
    land(tmp_path / "landing", "parquet", columns()).write_bytes(b"PAR1 and no more")
    with pytest.raises(CorruptFileError, match=r"a\.parquet"):
        in_process.freeze(started(tmp_path, "parquet"))


def outcome(place: Path, kind: str, spec: dict[str, Any], *, early: bool) -> str:
    """Class of the error that `inputs`, or `histogram` alone, ends with; "" if with none."""
    with pytest.MonkeyPatch.context() as patch:
        if not early:
            patch.setattr(inputs, "check_source", lambda *_: None)
        folder = started(place, kind, **spec)
        try:
            in_process.freeze(folder)
            if not early:
                in_process.count(folder)
        except HipslakeError as error:
            return type(error).__name__
    return ""


def surveys(seed: int) -> Iterator[tuple[str, list[dict[str, Any]], dict[str, Any]]]:
    """Files whose columns are of many types or missing here and there, and a spec that names some of them."""
    rng = np.random.default_rng(seed)
    makers: list[Any] = [
        lambda rows: rng.integers(0, 99, rows),
        lambda rows: rng.uniform(0, 80, rows) + 0.0625,
        lambda rows: [f"n {number}" for number in range(rows)],
        lambda rows: [None] * rows,
        lambda rows: rng.integers(0, 2, rows).astype(bool),
    ]
    for _ in range(40):
        kind = str(rng.choice(["parquet", "csv"]))
        of = {name: makers[at] for name, at in zip("abcd", rng.integers(0, 5, 4), strict=True)}
        of |= {"ra": makers[int(rng.choice([0, 1, 1, 1, 2]))], "dec": makers[1]}
        files = []
        for _ in range(int(rng.integers(1, 4))):
            mine = [name for name in of if rng.random() > 0.05]
            files.append({name: of[name](int(rng.integers(1, 9))) for name in mine})
            rows = min(len(values) for values in files[-1].values())
            files[-1] = {name: list(values)[:rows] for name, values in files[-1].items()}
        spec: dict[str, Any] = {}
        for key in ("index", "co_partitioned"):
            if rng.random() < 0.5:
                spec[key] = [str(rng.choice(list("abcde")))]
        if rng.random() < 0.4:
            spec["column_groups"] = groups(*map(str, rng.choice(list("abcdef"), 2, replace=False)))
        missing = str(rng.choice(["error", "null"]))
        yield kind, files, {"missing": missing, **spec}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(3))
def test_inputs_refuses_what_counting_all_rows_would_refuse_for_its_columns(
    tmp_path: Path, seed: int
) -> None:
    seen = set()
    for number, (kind, files, spec) in enumerate(surveys(seed)):
        place = tmp_path / str(number)
        place.mkdir()
        for at, table in enumerate(files):
            land(place / "landing", kind, table, str(at))
        source = {"uri": f"{place}/landing/*", "format": kind, "missing_columns": spec.pop("missing")}
        given = {"source": source, "bad_rows": {"policy": "quarantine", "max_fraction": 1}, **spec}
        early, late = (outcome(place, kind, given, early=early) for early in (True, False))
        refused = late if late in ("SchemaMismatchError", "ReservedColumnError") else ""
        assert early == refused, (kind, files, given)
        seen.add((kind, early))
    assert len(seen) == 4


def test_of_many_files_few_are_opened_unless_something_seems_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 3 * MOST_FILES
    for at in range(number):
        only = {"extra": [1.5]} if at == 7 else {}  # of no file that is looked at first
        land(tmp_path / "landing", "parquet", columns(1) | only, f"{at:04d}")
    opened: list[str] = []
    heads = DescribedSource.heads

    def counted(self: Any, files: list[SourceFile]) -> Any:
        opened.extend(file.uri for file in files)
        return heads(self, files)

    monkeypatch.setattr(DescribedSource, "heads", counted)
    source = {"uri": f"{tmp_path}/landing/*", "format": "parquet", "missing_columns": "null"}
    in_process.freeze(started(tmp_path, "parquet", source=source))
    assert len(opened) == MOST_FILES
    assert not [uri for uri in opened if uri.endswith("0007.parquet")]
    in_process.freeze(started(tmp_path, "parquet", source=source, column_groups=groups("extra")))
    with pytest.raises(SchemaMismatchError, match="index: column 'extra' is double"):
        in_process.freeze(started(tmp_path, "parquet", source=source, index=["extra"]))
    with pytest.raises(SchemaMismatchError, match="no column 'extras'"):
        in_process.freeze(started(tmp_path, "parquet", source=source, index=["extras"]))


def test_files_that_are_looked_at_are_spread_over_all() -> None:
    files: list[Any] = list(range(1000))
    some = spread(files, 64)
    assert (len(some), some[0], some[-1]) == (64, 0, 999)
    assert max(np.diff(some)) <= 17
    assert spread(files[:5], 64) == [0, 1, 2, 3, 4]
    assert spread(files[:1], 64) == [0]


def test_types_that_only_the_rest_of_a_csv_file_tells_are_left_to_the_counting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers with a point in the beginning, texts later: a column of ids after all."""
    monkeypatch.setattr("hipslake.sources.csv.source._PEEK_BYTES", 1)
    monkeypatch.setattr("hipslake.sources.csv.source._PEEK_BLOCK", 1000)
    rows = 3000
    table = columns(rows) | {"id": [f"{n}.5" if n < 2900 else f"s {n}" for n in range(rows)]}
    land(tmp_path / "landing", "csv", table)
    folder = started(tmp_path, "csv", index=["id"])
    in_process.freeze(folder)
    assert in_process.count(folder).rows_out == rows
    assert folder.schema().field("id").type == pa.string()
    table["id"] = [f"{n}.5" for n in range(rows)]
    land(tmp_path / "landing", "csv", table)
    folder = started(tmp_path, "csv", index=["id"])
    in_process.freeze(folder)
    with pytest.raises(SchemaMismatchError, match="index: column 'id' is double"):
        in_process.count(folder)
    with pytest.raises(SchemaMismatchError, match=r"position\.dec .* 'name' has type string"):
        in_process.freeze(started(tmp_path, "csv", position={"ra": "ra", "dec": "name"}))


def test_a_night_that_does_not_fit_to_its_catalog_is_told_by_inputs(tmp_path: Path) -> None:
    survey = Survey(tmp_path)
    survey.night(0)
    rows = night_rows(1)
    for wrong, message in [
        (rows.set_column(0, "id", rows["id"].cast(pa.string())), "column 'id' is int64 in catalog stars"),
        (rows.drop_columns(["mag"]), "has a column 'mag', and the files of this run have not"),
    ]:
        survey.land(1, wrong)
        with pytest.raises(SchemaMismatchError, match=message):
            in_process.freeze(survey.resolve(1))
    survey.land(1, rows.drop_columns(["mag"]).slice(0, 0))  # of no row, so that nothing is added
    in_process.freeze(survey.resolve(1))
    survey.land(1, rows)
    in_process.freeze(survey.resolve(1))


def test_a_spec_that_the_catalog_does_not_follow_is_told_by_inputs(tmp_path: Path) -> None:
    Survey(tmp_path).night(0)
    changed = Survey(tmp_path, more="co_partitioned: [night]")
    changed.land(1, night_rows(1))
    with pytest.raises(SpecError, match="co_partitioned"):
        in_process.freeze(changed.resolve(1))


def test_a_file_that_changes_while_it_is_looked_at_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = land(tmp_path / "landing", "csv", columns())

    def changing(*given: Any) -> None:
        path.write_text(path.read_text() + "\n")
        os.utime(path, ns=(1, 1))
        check_source(*given)

    monkeypatch.setattr(inputs, "check_source", changing)
    with pytest.raises(InputError, match=r"a\.csv was changed after the run listed it"):
        in_process.freeze(started(tmp_path, "csv"))


def test_a_run_that_failed_on_a_damaged_file_is_finished_once_it_is_mended(tmp_path: Path) -> None:
    """The message says from which task on the run is cleared, and that is enough."""
    landing = tmp_path / "landing"
    path = land(landing, "csv", columns())
    land(landing, "csv", columns(), "b")
    whole = path.read_text()
    path.write_text(whole.rstrip("\n").rpartition(",")[0] + "\n")  # the last row lacks a column
    folder = started(tmp_path, "csv", source={"uri": f"{landing}/*", "format": "csv"})
    with pytest.raises(CorruptFileError, match=r"a\.csv"):
        in_process.freeze(folder)
    with pytest.raises(CorruptFileError, match=r"a\.csv"):
        in_process.count(folder)
    path.write_text(whole)
    with pytest.raises(InputError, match=r"a\.csv was changed .*or clear this one from .*`inputs`.* on"):
        in_process.count(folder)
    reports = in_process.ingest(folder)  # from inputs on
    assert reports[-1].rows_out == 80
