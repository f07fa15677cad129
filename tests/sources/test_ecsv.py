"""ECSV: what astropy wrote comes out as it was, whatever the splits and the compression."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from astropy.table import MaskedColumn, Table
from hipslake.errors import CorruptFileError, EmptySourceError, InputError, SchemaMismatchError
from hipslake.sources import Source
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sources.reading import read, source, told

HEADER = """\
# %ECSV 1.0
# ---
# datatype:
# - {name: a, datatype: int32}
# - {name: b, datatype: float64}
# schema: astropy-2.0
"""


def ecsv_source(folder: Path, **options: Any) -> Source:
    return source("ecsv", f"{folder}/*", **options)


def ecsv_table(folder: Path, content: str, name: str = "a.ecsv", **options: Any) -> pa.Table:
    (folder / name).write_text(content)
    return read(ecsv_source(folder, **options))


def masked(values: Any, mask: list[int], **told: Any) -> MaskedColumn:
    return MaskedColumn(values, mask=np.array(mask, bool), **told)


@pytest.mark.parametrize("delimiter", [" ", ","])
def test_a_table_of_astropy_comes_out_with_values_nulls_units_and_descriptions(
    tmp_path: Path, delimiter: str
) -> None:
    table = Table(
        {
            "id": np.array([2**62 + 1, -1, 0]),
            "mag": masked(
                np.array([12.5, np.nan, 3], "f4"), [0, 0, 1], unit="mag", description="G: 'the' band"
            ),
            "n": masked(np.array([1, 2, 3], "u1"), [0, 1, 0], unit="count"),
            "name": masked(['Σ "x"', "b, b", "ccc"], [0, 0, 1]),
            "ok": masked([True, False, True], [0, 0, 1]),
            "half": np.array([1.5, 2.5, 0.1], "f2"),
            "cube": np.arange(12.0).reshape(3, 2, 2),
            "pair": masked(np.arange(6).reshape(3, 2), [[0, 1], [0, 0], [1, 1]]),  # type: ignore[list-item]
            "words": np.array([["a", "b c"], ["", "d"], ["Σ", "e"]]),
        }
    )
    lists = np.empty(3, object)
    lists[:] = [np.array([1.0, np.nan]), np.array([]), np.array([3.0])]
    table["list"] = lists
    table.write(tmp_path / "a.ecsv", format="ascii.ecsv", delimiter=delimiter)
    found = read(ecsv_source(tmp_path))
    assert str(found.to_pydict()) == str(
        {
            "id": [2**62 + 1, -1, 0],
            "mag": [12.5, float("nan"), None],
            "n": [1, None, 3],
            "name": ['Σ "x"', "b, b", None],
            "ok": [True, False, None],
            "half": np.array([1.5, 2.5, 0.1], "f2").tolist(),
            "cube": table["cube"].tolist(),
            "pair": [[0, None], [2, 3], [None, None]],
            "words": table["words"].tolist(),
            "list": [[1.0, float("nan")], [], [3.0]],
        }
    )
    assert found.schema.types == [
        *(pa.int64(), pa.float32(), pa.uint8(), pa.string(), pa.bool_(), pa.float16()),
        pa.list_(pa.list_(pa.float64(), 2), 2),
        pa.list_(pa.int64(), 2),
        pa.list_(pa.string(), 2),
        pa.list_(pa.float64()),
    ]
    assert told(found, "mag") == ("mag", "G: 'the' band")
    assert told(found, "n") == ("ct", None)


@settings(max_examples=examples(25))
@given(st.integers(1, 200), st.integers(1, 2000), st.sampled_from(["", ".gz", ".zst"]))
def test_any_split_gives_the_same_rows_in_order(
    tmp_path_factory: pytest.TempPathFactory, rows: int, target_bytes: int, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("ecsv")
    made = Table({"row": np.arange(rows), "text": [f"star {row}" for row in range(rows)]})
    made["pair"] = np.arange(2 * rows).reshape(rows, 2)
    path = folder / "a.ecsv"
    made.write(path, format="ascii.ecsv")
    content = path.read_bytes()
    if suffix:
        path.unlink()
        zstd = pa.Codec("zstd").compress(content, asbytes=True)
        (folder / f"a.ecsv{suffix}").write_bytes(gzip.compress(content) if suffix == ".gz" else zstd)
    found = read(ecsv_source(folder), target_bytes)
    assert found["row"].to_pylist() == list(range(rows))
    assert found["text"].to_pylist() == [f"star {row}" for row in range(rows)]
    assert found["pair"].to_pylist() == made["pair"].tolist()


def test_values_may_hold_line_ends_where_the_spec_says_so(tmp_path: Path) -> None:
    Table({"a": ["x\ny", "#z"], "b": [1, 2]}).write(tmp_path / "a.ecsv", format="ascii.ecsv")
    assert read(ecsv_source(tmp_path, newlines_in_values=True), 1).to_pydict() == {
        "a": ["x\ny", "#z"],
        "b": [1, 2],
    }
    with pytest.raises(CorruptFileError, match=r"line \d+: .*newlines_in_values: true"):
        read(ecsv_source(tmp_path))


def test_any_json_stays_text(tmp_path: Path) -> None:
    cells = np.empty(2, object)
    cells[:] = [{"a": 1}, [1, "x"]]
    Table({"v": cells}).write(tmp_path / "a.ecsv", format="ascii.ecsv")
    assert read(ecsv_source(tmp_path))["v"].to_pylist() == ['{"a":1}', '[1,"x"]']


@pytest.mark.parametrize("cell", ["[1],[2]", "[1", "]", "1,[2]"])
def test_a_cell_that_is_not_one_value_of_json_is_told(tmp_path: Path, cell: str) -> None:
    header = HEADER.replace(
        "{name: b, datatype: float64}", "{name: b, datatype: string, subtype: 'int64[null]'}"
    )
    with pytest.raises(CorruptFileError, match="column 'b'"):
        ecsv_table(tmp_path, f'{header}a b\n1 "[1,2]"\n2 "{cell}"\n')


def test_selected_columns_come_alone_and_rows_count_without_any(tmp_path: Path) -> None:
    (tmp_path / "a.ecsv").write_text(HEADER + "a b\n1 2\n3 4\n")
    (tmp_path / "b.ecsv").write_text(HEADER.replace("name: b", "name: c") + "a c\n5 6\n")
    filled = ecsv_source(tmp_path, missing_columns="null")
    assert read(filled, columns=["c"]).to_pydict() == {"c": [None, None, 6]}


def test_empty_files_and_files_without_rows_are_fine_among_others(tmp_path: Path) -> None:
    (tmp_path / "a.ecsv").touch()
    (tmp_path / "d.ecsv.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(EmptySourceError):
        read(ecsv_source(tmp_path))
    (tmp_path / "b.ecsv").write_text(HEADER + "a b\n")
    (tmp_path / "c.ecsv").write_bytes(
        b"\xef\xbb\xbf" + (HEADER + "a b\n1 2.5\n").replace("\n", "\r\n").encode()
    )
    assert read(ecsv_source(tmp_path)).to_pydict() == {"a": [1], "b": [2.5]}


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("a,b\n1,2\n", CorruptFileError, r"a\.ecsv is no ECSV file"),
        ("# a\n1 2\n", CorruptFileError, r"a\.ecsv is no ECSV file"),
        (HEADER, CorruptFileError, r"names of the columns are missing, but the header describes a, b"),
        (HEADER + "a c\n1 2\n", CorruptFileError, r"names of the columns are a, c, but .* a, b"),
        (HEADER + "a b\n1 2\n3\n", CorruptFileError, r"line 9: 1 values, but there are 2 columns"),
        (HEADER + "a b\n1 2\nx 3\n", SchemaMismatchError, r"line 9: column 'a': .*'x'.*datatype in the file"),
        (HEADER.replace("int32", "[") + "a b\n", CorruptFileError, r"the header is no YAML"),
        (HEADER.replace("datatype:", "types:", 1) + "a b\n", CorruptFileError, r"lists no columns"),
        (
            HEADER.replace("- {name: a, datatype: int32}", "- a") + "a b\n",
            CorruptFileError,
            r"lists no columns",
        ),
        (HEADER.replace("int32", "complex64") + "a b\n", InputError, r"column 'a' has datatype 'complex64'"),
        (
            HEADER.replace("int32", "string, subtype: 'x['") + "a b\n",
            InputError,
            r"column 'a' has subtype 'x\['",
        ),
        (
            HEADER.replace("int32", "string, subtype: 'int8[9999999999]'") + "a b\n",
            CorruptFileError,
            r"column 'a': subtype 'int8\[9999999999\]' is more than an array can have",
        ),
        *(
            (
                HEADER.replace("int32", f"string, subtype: {other}") + "a b\n",
                InputError,
                r"column 'a' has subtype .*, which is not read; write the column as numbers",
            )
            for other in ("5", "1.5", "true", "[]", "[1, 2]", "{}", "{a: 1}", "2020-01-01", "!!binary aGk=")
        ),
        *(
            (
                HEADER.replace("int32", f"int32, {key} 0x{'f' * 5000}") + "a b\n",
                CorruptFileError,
                r"the header is no YAML: a number has more than 400 digits",
            )
            for key in ("name:", "unit:", "description:", "subtype:", "x:")
        ),
        (HEADER + "# delimiter: ';'\na;b\n", CorruptFileError, r"delimiter is ';'"),
        (
            HEADER.replace("int32", "string, subtype: 'int8[2]'") + "a b\n[1,2] 1\n[1,2,3] 1\n",
            CorruptFileError,
            r"column 'a': '\[1,2,3\]' is no fixed_size_list",
        ),
        (
            HEADER.replace("int32", "string, subtype: 'int8[null]'") + "a b\n[1 1\n2] 1\n",
            CorruptFileError,
            r"column 'a': '\[1' is no list",
        ),
    ],
)
def test_damage_is_told_with_file_and_column(
    tmp_path: Path, content: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ecsv_table(tmp_path, content)


def test_a_stream_that_ends_early_is_named(tmp_path: Path) -> None:
    content = pa.Codec("zstd").compress((HEADER + "a b\n" + "1 2\n" * 9000).encode(), asbytes=True)
    (tmp_path / "a.ecsv.zst").write_bytes(content[:-4])
    with pytest.raises(CorruptFileError, match=r"a\.ecsv\.zst is truncated or damaged, or no zstd file"):
        read(ecsv_source(tmp_path))


@pytest.mark.parametrize("ordered", [True, False])
def test_ucds_are_read_where_astropy_writes_them(tmp_path: Path, ordered: bool) -> None:
    table = Table({"ra": [1.5], "mag": [2.5]})
    table["ra"].unit, table["ra"].meta["ucd"] = "deg", "pos.eq.ra;meta.main"
    table.write(tmp_path / "a.ecsv")
    if not ordered:
        text = (tmp_path / "a.ecsv").read_text()
        assert "!!omap" in text
        (tmp_path / "a.ecsv").write_text(
            text.replace("meta: !!omap\n#   - {ucd: pos.eq.ra;meta.main}", "ucd: pos.eq.ra;meta.main")
        )
        assert "!!omap" not in (tmp_path / "a.ecsv").read_text()
    found = source("ecsv", str(tmp_path / "*.ecsv"))
    schema = found.schema(found.list_files())
    assert schema is not None
    assert schema.field("ra").metadata == {b"unit": b"deg", b"ucd": b"pos.eq.ra;meta.main"}
    assert schema.field("mag").metadata is None
