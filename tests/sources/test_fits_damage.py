"""FITS damage: what cannot be read is told with the file, and with column and row where they are known."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from astropy.io import fits
from hipslake.errors import (
    CorruptFileError,
    EmptySourceError,
    InputError,
    ReservedColumnError,
    SchemaMismatchError,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.sources.reading import read
from tests.sources.test_fits import fits_source, rows_begin, several, write


def stars(path: Path, rows: int = 1000, **cards: Any) -> None:
    """Write a table of 18 bytes a row."""
    lists = np.empty(rows, object)
    lists[:] = [np.arange(row % 3) for row in range(rows)]
    write(
        path,
        fits.Column("id", "J", array=np.arange(rows)),
        fits.Column("name", "6A", array=np.arange(rows).astype("S6")),
        fits.Column("list", "PI", array=lists),
        **cards,
    )


@pytest.mark.parametrize("kept", [1, 79, 2000, 2880, 4000, 5759])
def test_a_file_that_ends_in_a_header_is_named(tmp_path: Path, kept: int) -> None:
    stars(tmp_path / "a.fits")
    content = (tmp_path / "a.fits").read_bytes()
    (tmp_path / "a.fits").write_bytes(content[:kept])
    with pytest.raises(InputError, match=r"a\.fits"):
        read(fits_source(tmp_path))


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("lost", [3000, 12_000])
def test_a_file_that_ends_in_its_rows_is_named(tmp_path: Path, suffix: str, lost: int) -> None:
    stars(tmp_path / "a.fits")
    content = (tmp_path / "a.fits").read_bytes()[:-lost]
    (tmp_path / "a.fits").unlink()
    zstd = pa.Codec("zstd").compress(content, asbytes=True)
    made = {"": content, ".gz": gzip.compress(content), ".zst": zstd}[suffix]
    (tmp_path / f"a.fits{suffix}").write_bytes(made)
    with pytest.raises(CorruptFileError, match=rf"a\.fits{suffix} is truncated"):
        read(fits_source(tmp_path))


@pytest.mark.parametrize(("suffix", "kind"), [(".gz", "gzip"), (".zst", "zstd")])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_compressed_stream_that_ends_early_is_named(
    tmp_path: Path, suffix: str, kind: str, share: float
) -> None:
    stars(tmp_path / "b.fits")
    content = (tmp_path / "b.fits").read_bytes()
    (tmp_path / "b.fits").unlink()
    made = gzip.compress(content) if kind == "gzip" else pa.Codec("zstd").compress(content, asbytes=True)
    (tmp_path / f"a.fits{suffix}").write_bytes(made[: int(len(made) * share)])
    with pytest.raises(
        CorruptFileError, match=rf"a\.fits{suffix} is truncated or damaged, or no {kind} file"
    ):
        read(fits_source(tmp_path))
    (tmp_path / f"a.fits{suffix}").write_bytes(content)
    with pytest.raises(CorruptFileError, match=f"no {kind} file"):
        read(fits_source(tmp_path))


@pytest.mark.parametrize("content", [b"id,ra,dec\n1,2,3\n", b"\x89HDF\r\n\x1a\n" * 1000, bytes(5000)])
def test_a_file_that_is_none_of_fits_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.fits").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"a\.fits is no FITS file"):
        read(fits_source(tmp_path))


def test_empty_files_alone_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.fits").touch()
    with pytest.raises(EmptySourceError, match="is empty"):
        read(fits_source(tmp_path))


@pytest.mark.parametrize(
    ("hdu", "message"),
    [
        (
            "stars",
            r"no HDU 'stars'; it has 0 \(no name\): primary; 1 SKY: IMAGE; 2 TILES: compressed in tiles;",
        ),
        (9, r"no HDU 9; it has"),
        (0, r"HDU 0 is no binary table \(primary\)"),
        ("SKY", r"HDU 1 \(SKY\) is no binary table \(IMAGE\)"),
        (2, r"HDU 2 \(TILES\) is no binary table \(compressed in tiles\)"),
        ("text", r"HDU 3 \(TEXT\) is no binary table \(TABLE\)"),
    ],
)
def test_a_table_that_is_not_there_is_told_with_those_that_are(
    tmp_path: Path, hdu: int | str, message: str
) -> None:
    several(tmp_path)
    with pytest.raises(InputError, match=message):
        read(fits_source(tmp_path, hdu=hdu))


def test_a_file_without_tables_is_told_with_what_it_has(tmp_path: Path) -> None:
    fits.PrimaryHDU(np.zeros((2, 2))).writeto(tmp_path / "a.fits")
    with pytest.raises(InputError, match=r"a\.fits has no binary table; it has 0 \(no name\): primary"):
        read(fits_source(tmp_path))


@pytest.mark.parametrize(
    ("cards", "error", "message"),
    [
        ({"TFORM1": "9Z"}, CorruptFileError, r"column 'id': TFORM '9Z' is no format"),
        ({"TFORM1": "9999999999J"}, CorruptFileError, r"column 'id': 9999999999 values in a cell are more"),
        ({"TFORM1": "2J"}, CorruptFileError, r"the columns take 22 bytes of a row, but a row has 18"),
        ({"TFORM1": None}, CorruptFileError, r"HDU 1: the header is damaged: .*TFORM1"),
        ({"TFORM3": "PX"}, InputError, r"column 'list' holds bit arrays of variable length"),
        ({"TFIELDS": "x"}, CorruptFileError, r"HDU 1: the header is damaged"),
        ({"NAXIS2": -5}, CorruptFileError, r"HDU 1"),
        ({"NAXIS1": "wide"}, CorruptFileError, r"HDU 1"),
        ({"TTYPE1": None}, SchemaMismatchError, r"column 1 has no name \(TTYPE1\)"),
        ({"TTYPE1": "NAME"}, ReservedColumnError, r"'NAME' and 'name' differ only by case"),
        ({"TTYPE1": "name"}, ReservedColumnError, r"'name' stands twice"),
        ({"TDIM2": "(5,2)"}, CorruptFileError, r"column 'name': TDIM '\(5,2\)' is no shape of 6 values"),
        ({"TDIM2": "six"}, CorruptFileError, r"column 'name': TDIM 'six'"),
        ({"TNULL1": "none"}, CorruptFileError, r"the header is damaged"),
        ({"TSCAL1": "much"}, CorruptFileError, r"the header is damaged"),
        ({"THEAP": 10**9}, CorruptFileError, r"column 'list', row 1 points out of the heap"),
    ],
)
def test_headers_that_lie_are_told(
    tmp_path: Path, cards: dict[str, Any], error: type[Exception], message: str
) -> None:
    stars(tmp_path / "a.fits", **cards)
    with pytest.raises(error, match=message):
        read(fits_source(tmp_path))


@pytest.mark.parametrize("pointer", [(3, -1), (-3, 0), (2**30, 0), (1, 2**31 - 1)])
def test_a_pointer_out_of_the_heap_is_told_with_column_and_row(
    tmp_path: Path, pointer: tuple[int, int]
) -> None:
    path = tmp_path / "a.fits"
    stars(path)
    at = rows_begin(path) + 500 * 18 + 10
    content = bytearray(path.read_bytes())
    content[at : at + 8] = np.array(pointer, ">i4").tobytes()
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"a\.fits: column 'list', row 501 points out of the heap"):
        read(fits_source(tmp_path))


def test_a_byte_that_is_no_logical_is_told_with_column_and_row(tmp_path: Path) -> None:
    path = tmp_path / "a.fits"
    fits.BinTableHDU.from_columns([fits.Column("ok", "3L", array=np.ones((4, 3), bool))]).writeto(path)
    at = rows_begin(path)
    content = bytearray(path.read_bytes())
    content[at + 7] = 1
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"column 'ok', row 3: byte 0x01 is no logical value"):
        read(fits_source(tmp_path))


def test_text_of_another_encoding_is_told_with_the_column_and_the_mend(tmp_path: Path) -> None:
    words = np.array([b"abc", b"caf\xe9"])
    fits.BinTableHDU.from_columns([fits.Column("word", "4A", array=words)]).writeto(tmp_path / "a.fits")
    with pytest.raises(InputError, match=r"column 'word', from row 1 on: .*not UTF-8 .*encoding: latin-1"):
        read(fits_source(tmp_path))


def test_scaled_complex_numbers_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.fits", fits.Column("z", "C", array=[1j]), TSCAL1=2.0)
    with pytest.raises(InputError, match=r"column 'z' holds scaled complex numbers"):
        read(fits_source(tmp_path))


def test_a_file_that_changed_after_it_was_listed_is_refused(tmp_path: Path) -> None:
    stars(tmp_path / "a.fits")
    reader = fits_source(tmp_path)
    files = reader.list_files()
    split, schema = reader.splits(files)[0], reader.schema(files)
    assert schema is not None
    (tmp_path / "a.fits").unlink()
    stars(tmp_path / "a.fits", rows=500)
    with pytest.raises(InputError, match=r"a\.fits was changed after the run listed it"):
        list(reader.read(split, schema))
    (tmp_path / "a.fits").unlink()
    with pytest.raises(InputError, match=r"a\.fits was deleted"):
        fits_source(tmp_path).splits(files)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=examples(150))
@given(st.integers(0, 8639), st.binary(min_size=1, max_size=12))
def test_damage_anywhere_in_the_headers_never_ends_in_another_error(
    tmp_path_factory: pytest.TempPathFactory, at: int, junk: bytes
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    stars(folder / "a.fits", rows=20)
    content = bytearray((folder / "a.fits").read_bytes())
    content[at : at + len(junk)] = junk
    (folder / "a.fits").write_bytes(content)
    with suppress(InputError):
        read(fits_source(folder))
