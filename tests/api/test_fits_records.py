"""Records of FITS tables become what a FITS source reads of their file: nulls, units and values."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import hipslake
import numpy as np
import pyarrow as pa
import pytest
from astropy.io import fits
from hipslake.api.given_rows import rows_of
from hipslake.errors import InputError, SpecError
from hipslake.sources import open_source
from hipslake.specs.source_spec import SourceSpec
from hypothesis import given
from hypothesis import strategies as st

from tests.api.stars_spec import SPEC

ROWS = 7


def by_source(place: Path) -> pa.Table:
    """The rows of a file as the source of a spec reads them."""
    source = open_source(SourceSpec(uri=str(place), format="fits"))
    files = source.list_files()
    schema = source.schema(files)
    assert schema is not None
    batches = [batch for split in source.splits(files) for batch in source.batches(split, schema, 1 << 20)]
    return pa.Table.from_batches(batches, schema)


def table(rng: np.random.Generator) -> fits.BinTableHDU:
    """A binary table with columns of all kinds, and nulls in each that can have some."""

    def whole(kind: str, shape: tuple[int, ...] = (ROWS,)) -> Any:
        bounds = np.iinfo(kind)
        values = rng.integers(bounds.min, bounds.max, shape, dtype=kind, endpoint=True)
        return np.where(rng.random(shape) < 0.3, np.array(bounds.min, kind), values)

    def real(kind: str, shape: tuple[int, ...] = (ROWS,)) -> Any:
        return np.where(rng.random(shape) < 0.3, np.nan, rng.normal(size=shape)).astype(kind)

    texts = rng.choice(["", " ", "a", "bb ", "  c", "d d"], ROWS)
    columns = [
        fits.Column("id", "K", array=np.arange(ROWS)),
        fits.Column("ra", "D", unit="deg", array=rng.uniform(0, 360, ROWS)),
        fits.Column("dec", "D", unit="deg", array=rng.uniform(-90, 90, ROWS)),
        fits.Column("byte", "B", null=0, array=whole("u1")),
        fits.Column("short", "I", null=-(2**15), unit="count", array=whole("i2")),
        fits.Column("int", "J", null=-(2**31), array=whole("i4")),
        fits.Column("long", "K", null=-(2**63), array=whole("i8")),
        fits.Column("plain", "J", array=whole("i4")),
        fits.Column("float", "E", unit="mag", array=real("f4")),
        fits.Column("double", "D", array=real("f8")),
        fits.Column("good", "L", array=rng.random(ROWS) < 0.5),
        fits.Column("bits", "11X", array=rng.random((ROWS, 11)) < 0.5),
        fits.Column("bit", "X", array=rng.random((ROWS, 1)) < 0.5),
        fits.Column("name", "5A", array=texts),
        fits.Column("names", "6A", dim="(3,2)", array=np.array([["ab", ""], ["c", "d"]] * 4)[:ROWS]),
        fits.Column("pair", "2I", null=-(2**15), array=whole("i2", (ROWS, 2))),
        fits.Column("matrix", "6E", dim="(3,2)", array=real("f4", (ROWS, 2, 3))),
        fits.Column("complex", "C", array=(real("f4") + 1j * real("f4")).astype("c8")),
        fits.Column("complexes", "2M", array=real("f8", (ROWS, 2)) + 1j * real("f8", (ROWS, 2))),
        fits.Column("flux", "PE()", array=ragged([real("f4", (n,)) for n in rng.integers(0, 4, ROWS)])),
        fits.Column(
            "counts", "QJ()", null=7, array=ragged([np.arange(6, 6 + n) for n in rng.integers(0, 4, ROWS)])
        ),
        fits.Column("scaled", "I", null=-(2**15), array=whole("i2")),
        fits.Column("half", "I", null=-(2**15), array=whole("i2")),
        fits.Column("signed", "B", null=0, array=whole("u1")),
        fits.Column("big", "K", null=-(2**63), array=whole("i8")),
    ]
    made = fits.BinTableHDU.from_columns(columns)
    at = {column.name: number for number, column in enumerate(columns, 1)}
    made.header[f"TCOMM{at['float']}"], made.header[f"TUCD{at['float']}"] = "brightness", "phot.mag"
    # What is stored stays as it is: only how it is read changes.
    made.header[f"TSCAL{at['scaled']}"], made.header[f"TZERO{at['scaled']}"] = 0.1, 3.7
    for name, zero in (("half", 2**15), ("signed", -128), ("big", 2**63)):
        made.header[f"TSCAL{at[name]}"], made.header[f"TZERO{at[name]}"] = 1, zero
    return made


def ragged(cells: list[Any]) -> Any:
    made = np.empty(len(cells), object)
    made[:] = cells
    return made


def written(place: Path, seed: int, *, ragged: bool = True) -> Path:
    """A file of such a table; some of its logical values are neither true nor false."""
    made, buffer = table(np.random.default_rng(seed)), io.BytesIO()
    if not ragged:
        made.columns.del_col("flux"), made.columns.del_col("counts")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.writeto(buffer)
    data = bytearray(buffer.getvalue())
    rows = fits.open(io.BytesIO(bytes(data)))[1]
    start = rows.fileinfo()["datLoc"]
    field = rows.columns.dtype.fields["good"]
    for row in range(0, ROWS, 3):
        data[start + row * rows.header["NAXIS1"] + field[1]] = 0
    place.write_bytes(bytes(data))
    return place


def same(left: pa.Table, right: pa.Table) -> None:
    assert left.column_names == right.column_names
    for name in left.column_names:
        assert left.schema.field(name).type == right.schema.field(name).type, name
        assert left[name].to_pylist() == right[name].to_pylist(), name


@given(st.integers(0, 10**6))
def test_records_are_what_a_source_reads_of_the_file(tmp_path_factory: Any, seed: int) -> None:
    place = written(tmp_path_factory.mktemp("fits") / "stars.fits", seed)
    expected = by_source(place)
    assert expected["good"].null_count == 3
    assert expected["int"].null_count + expected["half"].null_count + expected["scaled"].null_count > 0
    with fits.open(place) as hdus:
        hdu = hdus[1]
        found = rows_of(hdu).read_all()
        same(found, expected)
        assert found.schema.equals(expected.schema, check_metadata=True)
        records = rows_of(hdu.data).read_all()
        same(records, expected)
        told = records.schema.field("float").metadata
        assert told == {b"unit": b"mag"}  # records know no descriptions
        same(rows_of(hdu.data).read_all(), expected)  # nothing in them was changed


@pytest.mark.parametrize("looked_at", [True, False])
def test_chosen_records_are_the_chosen_rows(tmp_path: Path, looked_at: bool) -> None:
    place = written(tmp_path / "stars.fits", 5, ragged=looked_at)
    expected = by_source(place)
    with fits.open(place) as hdus:
        records = hdus[1].data
        if looked_at:
            for name in expected.column_names:
                records[name]
        chosen = [slice(2, 5), slice(None, None, 2), np.array([4, 0, 4]), np.arange(ROWS) % 2 == 0]
        for each in chosen:
            wanted = expected.take(pa.array(np.arange(ROWS)[each]))
            same(rows_of(records[each]).read_all(), wanted)
        same(rows_of(records.copy()).read_all(), expected)


def test_values_that_were_set_are_those_that_are_read(tmp_path: Path) -> None:
    with fits.open(written(tmp_path / "stars.fits", 1)) as hdus:
        records = hdus[1].data
        records["int"][0], records["half"][0], records["scaled"][0] = 5, 6, 7.5
        records["good"][0], records["name"][0] = True, "new"
        records["int"][1] = -(2**31)
        found = rows_of(records).read_all().slice(0, 2)
    assert [found[name][0].as_py() for name in ("int", "half", "scaled", "good", "name")] == [
        5,
        6,
        7.5,
        True,
        "new",
    ]
    assert found["int"][1].as_py() is None


def test_logicals_that_astropy_gives_as_bytes_keep_their_nulls(tmp_path: Path) -> None:
    place = written(tmp_path / "stars.fits", 2)
    with fits.open(place, logical_as_bytes=True) as hdus:
        assert rows_of(hdus[1].data).read_all()["good"].equals(by_source(place)["good"])


def test_a_catalog_of_records_is_that_of_the_file(tmp_path: Path) -> None:
    place = written(tmp_path / "stars.fits", 3)
    of_file = hipslake.ingest(place, spec=SPEC, warehouse=tmp_path / "file", spark=False)
    with fits.open(place) as hdus:
        of_table = hipslake.ingest(hdus[1], spec=SPEC, warehouse=tmp_path / "table", spark=False)
    assert of_table.read().equals(of_file.read())
    told = [[each.metadata for each in catalog.schema] for catalog in (of_table, of_file)]
    assert told[0] == told[1]
    assert of_table.schema.field("float").metadata[b"unit"] == b"mag"


def test_texts_beyond_ascii_and_records_made_in_memory(tmp_path: Path) -> None:
    names = np.array(["stärn".encode(), b"b", b""])
    made = fits.FITS_rec.from_columns(
        fits.ColDefs(
            [
                fits.Column("name", "8A", array=names),
                fits.Column("good", "L", array=np.array([True, False, True])),
                fits.Column("u", "J", bzero=2**31, array=np.array([0, 2**31, 2**32 - 1], "u4")),
            ]
        )
    )
    assert rows_of(made).read_all().to_pydict() == {
        "name": ["stärn", "b", None],
        "good": [True, False, True],
        "u": [0, 2**31, 2**32 - 1],
    }
    wrong = fits.FITS_rec.from_columns(
        fits.ColDefs([fits.Column("name", "3A", array=np.array([b"\xff\xfe"]))])
    )
    with pytest.raises(InputError, match="column 'name'"):
        rows_of(wrong)


def test_tables_in_ascii_have_their_nulls_and_units() -> None:
    columns = [
        fits.Column("a", "I5", array=[1, 2, 3], unit="mag", ascii=True),
        fits.Column("b", "F8.3", array=[1.5, 2, 3], ascii=True),
    ]
    found = rows_of(fits.TableHDU.from_columns(columns)).read_all()
    assert found.to_pydict() == {"a": [1, 2, 3], "b": [1.5, 2.0, 3.0]}
    assert found.schema.field("a").metadata == {b"unit": b"mag"}


def test_what_astropy_does_not_give_as_it_is_is_refused(tmp_path: Path) -> None:
    truths = fits.BinTableHDU.from_columns(
        [fits.Column("t", "PL()", array=ragged([np.array([True]), np.array([], bool)]))]
    )
    with pytest.raises(InputError, match="column 't' holds arrays of variable length"):
        rows_of(truths)
    with fits.open(written(tmp_path / "stars.fits", 1)) as hdus:
        chosen = hdus[1].data[[0, 2]]
    with pytest.raises(InputError, match=r"values that astropy leaves behind.*'flux'"):
        rows_of(chosen)
    with pytest.raises(SpecError, match=r"list of HDUs; give one that is a table \(1\)"):
        rows_of(fits.HDUList([fits.PrimaryHDU(), truths]))
    with pytest.raises(SpecError, match="is a PrimaryHDU"):
        rows_of(fits.PrimaryHDU())
