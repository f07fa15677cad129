"""Functions called leaf by leaf, held against a loop over the leaves' pixels."""

from __future__ import annotations

import os
import re

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hipslake import Catalog
from hipslake.errors import SchemaMismatchError, SpecError, VerificationError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api import functions
from tests.api.catalogs import LAYOUTS, publish_many_kinds
from tests.api.test_scan import equal
from tests.catalog.publishing import Published
from tests.examples import examples
from tests.sphere.regions.skies import REGIONS

COLUMNS = ["id", "mag", "band"]


def leaves(catalog: Catalog, **arguments: object) -> list[pa.Table]:
    """The rows of each leaf of the primary group, by reads of their pixels."""
    return [catalog.read(pixels=[tuple(pixel)], **arguments) for pixel in catalog.pixels]


@settings(max_examples=examples(15))
@given(
    layout=st.sampled_from(["hats", "hipscat"]), region=st.none() | REGIONS, workers=st.sampled_from([1, 3])
)
def test_what_a_function_gives_is_put_together_along_the_curve(
    many_kinds: dict[str, Published], layout: str, region: object, workers: int
) -> None:
    catalog = Catalog.open(many_kinds[layout].storage.uri())
    given = [functions.brightest(rows) for rows in leaves(catalog, columns=COLUMNS, region=region)]
    empty = catalog.read(COLUMNS, pixels=[])
    found = catalog.map_partitions(functions.brightest, columns=COLUMNS, region=region, workers=workers)
    assert equal(found, pa.concat_tables([empty, *given]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_frames_of_pandas_go_in_and_out(many_kinds: dict[str, Published], layout: str) -> None:
    catalog = Catalog.open(many_kinds[layout].storage.uri())
    found = catalog.map_partitions(
        functions.per_band, columns=COLUMNS, filters="band is not null", frames="pandas"
    )
    rows = catalog.read(["band"], filters="band is not null")["band"].cast(pa.string())
    summed = found.group_by("band").aggregate([("rows", "sum")]).to_pylist()
    expected = {each["values"].as_py(): each["counts"].as_py() for each in pc.value_counts(rows)}
    assert {each["band"]: each["rows_sum"] for each in summed} == expected
    assert found.num_rows > 10


def test_processes_give_what_threads_give(many_kinds: dict[str, Published]) -> None:
    catalog = Catalog.open(many_kinds["hats, two groups"].storage.uri())
    rows = catalog.read(["id", "mag"], region="cone 180 10 60deg")
    told = catalog.map_partitions(
        functions.at_home, columns=["id", "mag"], region="cone 180 10 60deg", workers=2, processes=True
    )
    assert os.getpid() not in told["process"].to_pylist()
    assert sum(told["rows"].to_pylist()) == rows.num_rows
    sizes = [
        part.to_arrow().num_rows for part in catalog.partitions(["id", "mag"], region="cone 180 10 60deg")
    ]
    assert told["rows"].to_pylist() == [size for size in sizes if size]


@pytest.mark.slow
def test_errors_in_processes_are_those_of_the_function(many_kinds: dict[str, Published]) -> None:
    catalog = Catalog.open(many_kinds["hats"].storage.uri())
    with pytest.raises(ArithmeticError, match="no such star"):
        catalog.map_partitions(functions.broken, columns=["id"], workers=2, processes=True)


def test_columns_that_stand_twice_and_columns_of_objects_name_the_leaf(catalog: Catalog) -> None:
    first = re.escape(str(next(catalog.partitions(["id"])).pixel))

    def twice_in_arrow(rows: pa.Table) -> pa.Table:
        return pa.Table.from_arrays([rows["id"], rows["id"]], ["id", "id"])

    def twice_in_pandas(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([frame, frame], axis=1)

    def mixed(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(x=pd.Series([1, "a"] * len(frame), dtype=object).head(len(frame)))

    for schema in (None, pa.schema({"id": pa.int64()}), pa.schema([("id", pa.int64())] * 2)):
        with pytest.raises(SchemaMismatchError, match=f"{first}: the function gave two columns named id"):
            catalog.map_partitions(twice_in_arrow, columns=["id"], schema=schema)
    with pytest.raises(SchemaMismatchError, match=f"{first}: the function gave two columns named id"):
        catalog.map_partitions(twice_in_pandas, columns=["id"], frames="pandas")
    with pytest.raises(SchemaMismatchError, match=f"{first}: the function gave a column that Arrow cannot"):
        catalog.map_partitions(mixed, columns=["id"], frames="pandas")


def test_numbers_of_another_byte_order_are_turned(catalog: Catalog) -> None:
    def swapped(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.astype({"id": ">i8", "mag": ">f4"})

    found = catalog.map_partitions(swapped, columns=["id", "mag"], frames="pandas")
    assert found["id"].equals(catalog.read(["id"])["id"])
    assert found.schema.field("mag").type == pa.float32()


def test_nothing_is_given_for_some_leaves(catalog: Catalog) -> None:
    found = catalog.map_partitions(lambda rows: rows if rows.num_rows > 100 else None, columns=["id"])
    parts = [part.to_arrow() for part in catalog.partitions(["id"])]
    assert found.equals(pa.concat_tables([part for part in parts if part.num_rows > 100]))
    assert 0 < found.num_rows < 2500
    assert catalog.map_partitions(lambda rows: None, columns=["id"]) == pa.table({})


def test_batches_and_columns_of_nulls_alone_are_taken(catalog: Catalog) -> None:
    def at_first_null(rows: pa.Table) -> pa.RecordBatch:
        value = None if rows.num_rows % 2 else rows.num_rows
        return pa.record_batch({"rows": pa.array([value])})

    sizes = [part.to_arrow().num_rows for part in catalog.partitions(["id"])]
    assert {size % 2 for size in sizes} == {0, 1}
    found = catalog.map_partitions(at_first_null, columns=["id"])
    assert found["rows"].to_pylist() == [None if size % 2 else size for size in sizes]
    assert found.schema.field("rows").type == pa.int64()


def test_a_schema_is_what_columns_are_cast_to(catalog: Catalog) -> None:
    schema = pa.schema({"n": pa.int32(), "name": pa.string()})
    found = catalog.map_partitions(
        lambda rows: pa.table({"name": [None], "n": [float(rows.num_rows)]}), columns=["id"], schema=schema
    )
    assert found.schema.equals(schema)
    assert sum(found["n"].to_pylist()) == 2500
    nowhere = catalog.map_partitions(
        lambda rows: 1 / 0, region="cone 0 0 0deg", columns=["id"], schema=schema
    )
    assert nowhere.equals(schema.empty_table())


def test_where_no_leaf_is_met_the_columns_are_those_of_an_empty_table(catalog: Catalog) -> None:
    found = catalog.scan(["id"], pixels=[]).map_partitions(
        lambda rows: pa.table({"n": pa.array([1] * rows.num_rows, pa.int8())})
    )
    assert found.equals(pa.table({"n": pa.array([], pa.int8())}))


def test_mistakes_name_the_leaf(catalog: Catalog) -> None:
    second = next(part.pixel for at, part in enumerate(catalog.partitions(["id"])) if at == 1)
    calls: list[int] = []

    def other_columns(rows: pa.Table) -> pa.Table:
        calls.append(rows.num_rows)
        return rows if len(calls) == 1 else rows.rename_columns(["other"])

    with pytest.raises(
        SchemaMismatchError, match=f"{second}: the function gave the columns other; they are id"
    ):
        catalog.map_partitions(other_columns, columns=["id"], workers=1)
    calls.clear()

    def other_types(rows: pa.Table) -> pa.Table:
        calls.append(rows.num_rows)
        return rows if len(calls) == 1 else rows.cast(pa.schema({"id": pa.string()}))

    with pytest.raises(
        SchemaMismatchError, match=f"{second}: .*'id' as string, and for partition .* as int64"
    ):
        catalog.map_partitions(other_types, columns=["id"], workers=1)
    with pytest.raises(SchemaMismatchError, match="which is no date32"):
        catalog.map_partitions(lambda rows: rows, columns=["note"], schema=pa.schema({"note": pa.date32()}))
    with pytest.raises(SchemaMismatchError, match=r"gave builtins\.int"):
        catalog.map_partitions(len, columns=["id"])
    with pytest.raises(SchemaMismatchError, match=r"gave pandas\..*Series"):
        catalog.map_partitions(lambda frame: frame["id"], columns=["id"], frames="pandas")
    with pytest.raises(ArithmeticError) as failed:
        catalog.map_partitions(functions.broken, columns=["id"])
    assert "partition Norder=" in " ".join(failed.value.__notes__)


def test_no_more_leaves_are_begun_after_an_error(catalog: Catalog) -> None:
    calls: list[int] = []

    def fails(rows: pa.Table) -> pa.Table:
        calls.append(rows.num_rows)
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        catalog.map_partitions(fails, columns=["id"], workers=1)
    assert len(calls) <= 3 < len(list(catalog.partitions(["id"])))


def test_options_that_do_not_go_together(catalog: Catalog) -> None:
    for options, told in (
        ({"workers": 0}, "workers is 0"),
        ({"frames": "polars"}, "frames is 'polars'"),
        ({"spark": object(), "workers": 2}, "Spark has its own"),
        ({"spark": object(), "processes": True}, "Spark has its own"),
    ):
        with pytest.raises(SpecError, match=told):
            catalog.map_partitions(functions.brightest, columns=COLUMNS, **options)  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatchError, match="no partitions"):
        catalog.map_partitions(functions.brightest, columns=[])


def test_a_missing_leaf_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    published = publish_many_kinds(tmp_path_factory.mktemp("missing"), "hats")
    catalog = Catalog.open(published.storage.uri())
    published.storage.delete(catalog.metadata.partitions("main", published.storage)["path"].to_pylist()[2])
    with pytest.raises(VerificationError, match="is missing"):
        catalog.map_partitions(functions.brightest, columns=COLUMNS)


def test_frames_have_an_index_of_no_meaning(catalog: Catalog) -> None:
    def shuffled(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.sort_values("id").head(1)

    found = catalog.map_partitions(shuffled, columns=["id"], frames="pandas")
    assert found.column_names == ["id"]
