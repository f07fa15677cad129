"""FITS: what astropy wrote comes out as it was, whatever the splits and the compression."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from astropy.io import fits
from astropy.table import MaskedColumn, Table
from hipslake.sources import Source
from hipslake.sources.fits import bytes as fits_bytes
from hipslake.sources.fits import source as fits_module
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sources.reading import read, source, told


def fits_source(folder: Path, **options: Any) -> Source:
    return source("fits", f"{folder}/*", **options)


def write(path: Path, *columns: fits.Column, **cards: Any) -> None:
    """Write a table as astropy does, then put these cards into its header, or with None take them out."""
    fits.BinTableHDU.from_columns(list(columns)).writeto(path)
    header = fits.getheader(path, 1)
    for name, value in cards.items():
        if value is None:
            del header[name]
        else:
            header[name] = value
    begin = rows_begin(path)
    told = fits.getheader(path, 0).tostring() + header.tostring()
    path.write_bytes(told.encode() + path.read_bytes()[begin:])


def rows_begin(path: Path) -> int:
    """The byte of a file at which the rows of its table begin."""
    with fits.open(path) as hdus:
        return int(hdus[1].fileinfo()["datLoc"])


def table_of(folder: Path, *columns: fits.Column, **cards: Any) -> pa.Table:
    """Write a table, and read it."""
    write(folder / "a.fits", *columns, **cards)
    return read(fits_source(folder))


def masked(values: Any, mask: list[int], **told: Any) -> MaskedColumn:
    return MaskedColumn(values, mask=np.array(mask, bool), **told)


def test_a_table_of_astropy_comes_out_with_values_nulls_units_and_descriptions(tmp_path: Path) -> None:
    long = "Counts in the band that was looked at, corrected for what lay before and behind the object itself"
    table = Table(
        {
            "id": np.array([2**62 + 1, -1, 0]),
            "ra": np.array([10.5, 359.9, 0.0]),
            "mag": masked(np.array([12.5, 1, 3], "f4"), [0, 1, 0], unit="mag", description="G band"),
            "n": masked(np.array([1, 2, 3], "i2"), [0, 0, 1], unit="count", description=long),
            "name": masked(["Σ", "b b", "ccc"], [0, 0, 1])
            if False
            else masked(["a", "b b", "ccc"], [0, 0, 1]),
            "ok": np.array([True, False, True]),
            "vector": np.arange(12.0).reshape(3, 2, 2),
            "z": np.array([1 + 2j, 0, -1j], "c8"),
        }
    )
    table["ra"].unit = "deg"
    table.write(tmp_path / "a.fits")
    found = read(fits_source(tmp_path))
    assert found.to_pydict() == {
        "id": [2**62 + 1, -1, 0],
        "ra": [10.5, 359.9, 0.0],
        "mag": [12.5, None, 3.0],
        "n": [1, 2, None],
        "name": ["a", "b b", None],
        "ok": [True, False, True],
        "vector": table["vector"].tolist(),
        "z": [{"real": z.real, "imaginary": z.imag} for z in (1 + 2j, 0j, -1j)],
    }
    vector = pa.list_(pa.list_(pa.float64(), 2), 2)
    assert found.schema.types[:-1] == [
        *(pa.int64(), pa.float64(), pa.float32(), pa.int16(), pa.string(), pa.bool_()),
        vector,
    ]
    assert told(found, "ra") == ("deg", None)
    assert told(found, "mag") == ("mag", "G band")
    assert told(found, "n") == ("count", long)


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"])
def test_numbers_keep_their_type_and_their_extremes(tmp_path: Path, kind: str) -> None:
    dtype = np.dtype(kind)
    limits = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    values = np.array([limits.min, limits.max, 0, 1], dtype)
    forms = {"u1": "B", "i1": "B", "2": "I", "4": "J", "8": "K", "f4": "E", "f8": "D"}
    zero = {"i1": -128, "u2": 2**15, "u4": 2**31, "u8": 2**63}.get(kind)
    form = forms.get(kind) or forms[kind[1]]
    found = table_of(tmp_path, fits.Column("v", form, array=values, bzero=zero))
    assert found.schema.field("v").type == pa.from_numpy_dtype(dtype)
    assert found["v"].to_numpy().tolist() == values.tolist()


def test_scaled_integers_become_floats_and_their_nulls_are_of_what_is_stored(tmp_path: Path) -> None:
    stored = fits.Column("v", "I", array=np.array([-32768, -1, 0, 200], "i2"))
    found = table_of(tmp_path, stored, TSCAL1=0.5, TZERO1=100.0, TNULL1=-32768)
    assert found.schema.field("v").type == pa.float64()
    assert found["v"].to_pylist() == [None, 99.5, 100.0, 200.0]
    with fits.open(tmp_path / "a.fits") as hdus:
        assert hdus[1].data["v"][1:].tolist() == [99.5, 100.0, 200.0]


def test_scaled_floats_become_doubles(tmp_path: Path) -> None:
    stored = fits.Column("v", "E", array=np.array([1.5, np.nan], "f4"))
    assert table_of(tmp_path, stored, TSCAL1=2.0)["v"].to_pylist() == [3.0, None]


def test_nulls_of_unsigned_integers_are_of_what_is_stored(tmp_path: Path) -> None:
    stored = fits.Column("v", "I", array=np.array([-32768, 7, 32767], "i2"))
    found = table_of(tmp_path, stored, TZERO1=32768, TNULL1=7)
    assert found["v"].to_pylist() == [0, None, 65535]


def test_nan_is_null_as_the_standard_has_it_unless_the_spec_keeps_it(tmp_path: Path) -> None:
    table_of(tmp_path, fits.Column("v", "2D", array=np.array([[1, np.nan], [np.inf, 2]])))
    assert read(fits_source(tmp_path))["v"].to_pylist() == [[1, None], [np.inf, 2]]
    kept = read(fits_source(tmp_path, nan_is_null=False))["v"]
    assert str(kept.to_pylist()) == "[[1.0, nan], [inf, 2.0]]"


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (b"abc   ", "abc"),
        (b" a b  ", " a b"),
        (b"ab\0zzz", "ab"),
        (b"ab \0\xff\xff", "ab"),
        (b"      ", ""),
        (b"\0\0\0\0\0\0", None),
        (b"\0abcde", None),
        ("aéΣ".encode() + b" ", "aéΣ"),
        (b"abcdef", "abcdef"),
    ],
)
def test_texts_end_at_a_zero_byte_and_blanks_fill_them_up(
    tmp_path: Path, stored: bytes, value: str | None
) -> None:
    path = tmp_path / "a.fits"
    write(
        path, fits.Column("v", "6A", array=np.array([b"@@@@@@", b"x"])), fits.Column("w", "B", array=[1, 2])
    )
    path.write_bytes(path.read_bytes().replace(b"@@@@@@", stored))
    assert read(fits_source(tmp_path)).to_pydict() == {"v": [value, "x"], "w": [1, 2]}


def test_texts_may_be_latin_1(tmp_path: Path) -> None:
    words = ["Ångström", "x", "é"]
    stored = np.array([word.encode("latin-1") for word in words])
    write(tmp_path / "a.fits", fits.Column("v", "8A", array=stored))
    assert read(fits_source(tmp_path, encoding="latin-1"))["v"].to_pylist() == words


def test_arrays_have_the_shape_that_tdim_tells(tmp_path: Path) -> None:
    words = np.array([[b"ab", b"c"], [b"d", b""]], "S3")
    found = table_of(
        tmp_path,
        fits.Column("cube", "24I", dim="(4,3,2)", array=np.arange(48, dtype="i2").reshape(2, 2, 3, 4)),
        fits.Column("words", "6A", dim="(3,2)", array=words),
        fits.Column("one", "1J", array=[1, 2]),
        fits.Column("none", "0J", array=np.zeros((2, 0))),
    )
    assert found["cube"].to_pylist() == np.arange(48).reshape(2, 2, 3, 4).tolist()
    assert found["words"].to_pylist() == [["ab", "c"], ["d", None]]
    assert found["one"].to_pylist() == [1, 2]
    assert found["none"].to_pylist() == [None, None]


def test_bits_and_logicals(tmp_path: Path) -> None:
    bits = np.random.default_rng(1).random((3, 11)) < 0.5
    found = table_of(
        tmp_path,
        fits.Column("bits", "11X", array=bits),
        fits.Column("bit", "X", array=bits[:, :1]),
        fits.Column("flags", "2L", array=bits[:, :2]),
    )
    assert found["bits"].to_pylist() == bits.tolist()
    assert found["bit"].to_pylist() == bits[:, 0].tolist()
    assert found["flags"].to_pylist() == bits[:, :2].tolist()


def test_a_logical_that_is_zero_is_null(tmp_path: Path) -> None:
    path = tmp_path / "a.fits"
    fits.BinTableHDU.from_columns([fits.Column("v", "L", array=[True, False, True])]).writeto(path)
    path.write_bytes(path.read_bytes().replace(b"TFT" + bytes(2877), b"\0FT" + bytes(2877)))
    assert read(fits_source(tmp_path))["v"].to_pylist() == [None, False, True]


@pytest.mark.parametrize("form", ["P", "Q"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_arrays_of_variable_length_become_lists(tmp_path: Path, form: str, suffix: str) -> None:
    cells = [np.array(cell, "f4") for cell in ([1, 2, 3], [], [np.nan], [4, 5])]
    columns = [
        fits.Column("id", "J", array=np.arange(4)),
        fits.Column("v", f"{form}E", array=np.array([*cells, None], object)[:4]),
        fits.Column(
            "n", f"{form}I", array=np.array([np.arange(k, dtype="i2") for k in (0, 3, 1, 2)], object)
        ),
        fits.Column("ok", f"{form}L", array=np.array([np.array([k > 1] * k) for k in (1, 2, 0, 1)], object)),
    ]
    path = tmp_path / "a.fits"
    fits.BinTableHDU.from_columns(columns).writeto(path)
    compressed(path, suffix)
    found = read(fits_source(tmp_path), 1)
    assert found["v"].to_pylist() == [[1, 2, 3], [], [None], [4, 5]]
    assert found["n"].to_pylist() == [[], [0, 1, 2], [0], [0, 1]]
    assert found["ok"].to_pylist() == [[False], [True, True], [], [False]]
    assert read(fits_source(tmp_path), columns=["id"])["id"].to_pylist() == [0, 1, 2, 3]


def test_pointers_may_lie_in_any_order_and_share_values(tmp_path: Path) -> None:
    cells = [np.arange(5, dtype="i4"), np.arange(10, 13, dtype="i4"), np.arange(2, dtype="i4")]
    path = tmp_path / "a.fits"
    fits.BinTableHDU.from_columns([fits.Column("v", "PJ", array=np.array(cells, object))]).writeto(path)
    at = rows_begin(path)
    content = bytearray(path.read_bytes())
    pointers = np.array([[2, 4], [3, 20], [4, 16]], ">i4")  # values from the middle, overlapping, backwards
    content[at : at + 24] = pointers[::-1].tobytes()
    path.write_bytes(content)
    assert read(fits_source(tmp_path))["v"].to_pylist() == [[4, 10, 11, 12], [10, 11, 12], [1, 2]]


def compressed(path: Path, suffix: str) -> None:
    """Put a compressed file in the place of a plain one."""
    content = path.read_bytes()
    if not suffix:
        return
    path.unlink()
    codec = pa.Codec("zstd")
    made = gzip.compress(content) if suffix == ".gz" else codec.compress(content, asbytes=True)
    path.with_name(path.name + suffix).write_bytes(made)


@settings(max_examples=examples(25))
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=3),
    st.integers(1, 3000),
    st.integers(1, 30),
    st.sampled_from(["", ".gz", ".zst"]),
)
def test_any_split_and_batch_size_gives_the_same_rows_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    target_bytes: int,
    batch_rows: int,
    suffix: str,
) -> None:
    folder = tmp_path_factory.mktemp("fits")
    bounds = np.cumsum([0, *sizes])
    for number, size in enumerate(sizes):
        rows = np.arange(bounds[number], bounds[number] + size)
        lists = np.empty(size, object)
        lists[:] = [np.arange(row % 4) for row in rows]
        columns = [fits.Column("row", "K", array=rows), fits.Column("text", "8A", array=rows.astype("S8"))]
        columns.append(fits.Column("list", "PK", array=lists))
        path = folder / f"{number}.fits"
        fits.BinTableHDU.from_columns(columns).writeto(path)
        compressed(path, suffix)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits_module, "BATCH_ROWS", batch_rows)
        reader = fits_source(folder)
        found = read(reader, target_bytes)
        splits = reader.splits(reader.list_files(), target_bytes)
    assert found["row"].to_pylist() == list(range(bounds[-1]))
    assert found["text"].to_pylist() == [str(row) for row in range(bounds[-1])]
    assert found["list"].to_pylist() == [list(range(row % 4)) for row in range(bounds[-1])]
    assert [split.ordinal for split in splits] == list(range(len(splits)))
    assert all(batch.num_rows <= batch_rows for batch in found.to_batches())
    if suffix:
        assert len(splits) == np.count_nonzero(sizes)


def test_batches_are_bounded_by_what_the_heap_gives_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = np.empty(50, object)
    lists[:] = [np.arange(1000, dtype="f8")] * 50
    fits.BinTableHDU.from_columns([fits.Column("v", "PD", array=lists)]).writeto(tmp_path / "a.fits")
    monkeypatch.setattr(fits_module, "BATCH_BYTES", 20_000)
    found = read(fits_source(tmp_path))
    assert found.num_rows == 50
    assert max(batch.nbytes for batch in found.to_batches()) < 40_000


def test_a_task_reads_only_the_bytes_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.fits"
    rows = np.arange(200_000)
    fits.BinTableHDU.from_columns([fits.Column("v", "K", array=rows)]).writeto(path)
    reader = fits_source(tmp_path)
    split = reader.splits(reader.list_files(), 400_000)[2]
    schema = reader.schema(reader.list_files())
    assert schema is not None
    asked: list[tuple[int, int]] = []
    original = fits_bytes._PlainBytes.read

    def watched(self: Any, start: int, stop: int) -> bytes:
        asked.append((start, stop))
        return original(self, start, stop)

    monkeypatch.setattr(fits_bytes._PlainBytes, "read", watched)
    batches = list(reader.read(split, schema))
    assert pa.Table.from_batches(batches)["v"].to_pylist() == list(range(split.start, split.stop))
    at = rows_begin(path)
    of_rows = [(start, stop) for start, stop in asked if stop > at]
    assert of_rows == [(at + 8 * split.start, at + 8 * split.stop)]


def several(folder: Path) -> None:
    image = fits.ImageHDU(np.zeros((3, 4), "f4"), name="SKY")
    tiles = fits.CompImageHDU(np.zeros((30, 40), "i2"), name="TILES")
    one = fits.BinTableHDU.from_columns([fits.Column("a", "J", array=[1])], name="ONE")
    two = fits.BinTableHDU.from_columns([fits.Column("b", "J", array=[2])], name="Two")
    text = fits.TableHDU.from_columns([fits.Column("c", "I4", array=[3])], name="TEXT")
    fits.HDUList([fits.PrimaryHDU(np.zeros(5, "i2")), image, tiles, text, one, two]).writeto(
        folder / "a.fits"
    )


@pytest.mark.parametrize(("hdu", "column"), [(None, "a"), ("one", "a"), (4, "a"), ("TWO", "b"), (5, "b")])
def test_the_table_is_named_by_number_or_name_and_else_the_first(
    tmp_path: Path, hdu: int | str | None, column: str
) -> None:
    several(tmp_path)
    assert read(fits_source(tmp_path, hdu=hdu)).column_names == [column]


@pytest.mark.parametrize("cards", range(30, 42))
def test_headers_may_end_anywhere_in_a_block(tmp_path: Path, cards: int) -> None:
    comments = {f"HOLD{number}": number for number in range(cards)}
    assert table_of(tmp_path, fits.Column("v", "J", array=[1, 2]), **comments).to_pydict() == {"v": [1, 2]}


def test_files_are_read_as_one_table_by_name(tmp_path: Path) -> None:
    for name, columns in (("a", ("x", "y")), ("b", ("y", "x"))):
        made = [fits.Column(column, "J", array=[ord(column)]) for column in columns]
        fits.BinTableHDU.from_columns(made).writeto(tmp_path / f"{name}.fits")
    assert read(fits_source(tmp_path)).to_pydict() == {"x": [120, 120], "y": [121, 121]}


def test_selected_columns_come_alone_and_rows_count_without_any(tmp_path: Path) -> None:
    for name in "ab":
        columns = [fits.Column(column, "J", array=[1, 2]) for column in ("x", name)]
        fits.BinTableHDU.from_columns(columns).writeto(tmp_path / f"{name}.fits")
    filled = fits_source(tmp_path, missing_columns="null")
    assert read(filled, columns=["b"])["b"].to_pylist() == [None, None, 1, 2]
    with pytest.raises(KeyError, match="no column nope"):
        read(filled, columns=["nope"])


def test_a_table_without_rows_and_an_empty_file_are_fine_among_others(tmp_path: Path) -> None:
    fits.BinTableHDU.from_columns([fits.Column("v", "J", array=np.zeros(0, "i4"))]).writeto(
        tmp_path / "a.fits"
    )
    (tmp_path / "b.fits").touch()
    (tmp_path / "c.fits.gz").write_bytes(gzip.compress(b""))
    reader = fits_source(tmp_path)
    assert reader.splits(reader.list_files()) == []
    assert read(reader).schema == pa.schema([("v", pa.int32())])


def test_descriptions_may_stand_in_tcomm(tmp_path: Path) -> None:
    found = table_of(tmp_path, fits.Column("v", "J", array=[1], unit="km s-1"), TCOMM1="Radial velocity")
    assert told(found, "v") == ("km s-1", "Radial velocity")


def test_reader_travels_to_the_tasks(tmp_path: Path) -> None:
    table_of(tmp_path, fits.Column("v", "J", array=[1]))
    reader = fits_source(tmp_path)
    files = reader.list_files()
    split, schema = reader.splits(files)[0], reader.schema(files)
    sent = pickle.loads(pickle.dumps(reader))
    assert schema is not None
    assert [batch.to_pydict() for batch in sent.read(split, schema)] == [{"v": [1]}]
