"""Files that have not the columns of a sink's spec are refused when they are listed, and no others."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hipslake.errors import HipslakeError, SchemaMismatchError, SpecError
from hipslake.specs.table_spec import TableSpec
from hipslake.steps.sink.sink_columns import check_sink_columns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sources.reading import source as open_files
from tests.steps.nights import Survey
from tests.steps.sinks import Lake

TABLE = pa.table({"id": [1, 2], "mag": [1.5, 2.5], "seen": ["2026-11-20", "2026-11-21"], "tags": [[1], [2]]})
PLAIN = TABLE.drop_columns(["tags"])


def spec_of(place: Path, format_: str, **more: object) -> TableSpec:
    files = {"uri": f"{place}/*.{format_}", "format": format_}
    return TableSpec.model_validate(
        {"name": "t", "table": "sky.t", "source": {"files": files, "columns": None}} | more
    )


def check(place: Path, format_: str, **more: object) -> None:
    source = open_files(format_, f"{place}/*.{format_}")
    check_sink_columns(source, source.list_files(), spec_of(place, format_, **more))


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"mode": "upsert", "key": ["nope"]}, SchemaMismatchError, "key: the rows have no column 'nope'"),
        ({"mode": "upsert", "key": ["mag"]}, SpecError, "key: column 'mag' is of type double"),
        ({"partition": ["day(seen)"]}, SpecError, "day"),
        (
            {"partition": ["bucket[4](nope)"]},
            SchemaMismatchError,
            "partition: the rows have no column 'nope'",
        ),
        ({"sort": ["nope desc"]}, SchemaMismatchError, "sort: the rows have no column 'nope'"),
    ],
)
def test_what_headers_tell(
    tmp_path: Path, more: dict[str, object], error: type[Exception], message: str
) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    with pytest.raises(error, match=message):
        check(tmp_path, "parquet", **more)
    check(tmp_path, "parquet", mode="upsert", key=["id"], partition=["bucket[4](seen)"], sort=["mag"])


def test_of_csv_files_names_are_known_and_types_are_not(tmp_path: Path) -> None:
    rows = "id,seen\n" + "1,\n" * 3_000_000 + "2,2026-11-20\n"  # more than is looked at
    for number in range(6):
        (tmp_path / f"{number}.csv").write_text(rows)
    check(tmp_path, "csv", partition=["day(seen)"], mode="upsert", key=["seen"])
    for more in ({"mode": "upsert", "key": ["nope"]}, {"partition": ["day(nope)"]}, {"sort": ["nope"]}):
        with pytest.raises(SchemaMismatchError, match="the rows have no column 'nope'; they have id, seen"):
            check(tmp_path, "csv", **more)


def test_the_listing_of_a_run_refuses_and_the_table_is_not_made(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    pq.write_table(PLAIN, tmp_path / "landing" / "a.parquet")
    lake.write_spec(
        f"source: {{files: {{uri: '{tmp_path}/landing/*.parquet', format: parquet}}}}\n"
        "partition: ['bucket[4](nope)']\n"
    )
    with pytest.raises(SchemaMismatchError, match="no column 'nope'"):
        lake.run_files()
    assert not list(tmp_path.rglob("*.metadata.json"))


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ("key: [nope]\nmode: upsert", SchemaMismatchError, "key: the rows have no column 'nope'"),
        ("key: [mag]\nmode: upsert", SpecError, "key: column 'mag' is of type double"),
        ("partition: ['day(mag)']", SpecError, "day"),
        ("sort: [nope]", SchemaMismatchError, "sort: the rows have no column 'nope'"),
        ("partition: ['healpix[2]', 'bucket[4](nope)']", SchemaMismatchError, "partition: .* 'nope'"),
    ],
)
def test_columns_of_a_catalog_are_looked_at_when_the_run_begins(
    tmp_path: Path, more: str, error: type[Exception], message: str
) -> None:
    Survey(tmp_path).night(0)
    lake = Lake(tmp_path)
    lake.write_spec(f"source: {{catalog: stars, rows: increment}}\n{more}\n")
    with pytest.raises(error, match=message):
        lake.resolve()
    assert not list(tmp_path.rglob("*.metadata.json"))


COLUMNS = st.sampled_from(["id", "mag", "seen", "nope"])


@settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    st.sampled_from(["parquet", "csv"]),
    st.one_of(st.just({}), COLUMNS.map(lambda name: {"mode": "upsert", "key": [name]})),
    st.lists(
        st.builds("{}({})".format, st.sampled_from(["day", "bucket[4]", "identity"]), COLUMNS),
        max_size=2,
        unique=True,
    ),
)
def test_nothing_is_refused_that_the_sink_would_take(
    tmp_path_factory: pytest.TempPathFactory, format_: str, mode: dict[str, object], partition: list[str]
) -> None:
    place = tmp_path_factory.mktemp("columns")
    (place / "landing").mkdir()
    lake = Lake(place)
    if format_ == "csv":
        pa.csv.write_csv(PLAIN, place / "landing" / "a.csv")
    else:
        pq.write_table(PLAIN, place / "landing" / "a.parquet")
    given = mode | {"partition": partition}
    lines = "".join(f"{key}: {value}\n" for key, value in given.items())
    lake.write_spec(f"source: {{files: {{uri: '{place}/landing/*', format: {format_}}}}}\n{lines}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hipslake.steps.sink.sink_files.check_sink_columns", lambda *_: None)
        try:
            lake.run_files()
            refused = False
        except HipslakeError:
            refused = True
    try:
        check(place / "landing", format_, **given)
    except HipslakeError:
        assert refused
