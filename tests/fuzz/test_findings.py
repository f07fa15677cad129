"""What the fuzzing has found, each as small as it gets: told as an error of ours, with what is wrong."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from astropy.io import fits
from hipslake.catalog.hats.point_map import PointMap
from hipslake.catalog.metadata import CatalogMetadata
from hipslake.catalog.moc_files import read_moc
from hipslake.catalog.partitions import PARTITION_SCHEMA, Sidecar, pixels_in, read_sidecar, table_of
from hipslake.catalog.schema import schema_of_text
from hipslake.cube.store.metadata import CubeMetadata
from hipslake.errors import (
    CatalogFormatError,
    CorruptFileError,
    HipslakeError,
    InputError,
    PathError,
    SchemaMismatchError,
    SpecError,
)
from hipslake.predicates.condition_text import parse_conditions
from hipslake.specs.base import Frozen
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.cube_spec import CubeSpec
from hipslake.specs.plain_yaml import Document, PlainLoader, YamlError
from hipslake.specs.source_spec import CsvOptions
from hipslake.specs.spec_folder import load_spec, spec_type
from hipslake.specs.threshold import Threshold
from hipslake.steps.export.outputs import output_uri
from hipslake.steps.join.frozen_join import frozen_join
from hipslake.steps.join.request import FROZEN
from hipslake.steps.run import RunFolder
from hipslake.steps.tables import read_table
from hipslake.storage.folder import Storage
from hipslake.tables.parquet_folder.folder_access import mark_from
from hipslake.versions.log import VersionLog
from hipslake.versions.orphans import sweep_orphans
from pydantic import ValidationError

from tests.sources.reading import csv_table, read, source
from tests.sources.test_fits import write
from tests.sources.test_votable import binary_table, document, votable_source

GOOD = "name: s\nsource: {uri: /x, format: csv}\nposition: {ra: ra, dec: dec}\n"
DEEP = b"[" * 100_000


def spec_message(folder: Path, text: str) -> str:
    (folder / "s.yaml").write_text(text)
    with pytest.raises(SpecError) as told:
        load_spec(folder / "s.yaml", CatalogSpec)
    return str(told.value)


def test_integers_of_more_digits_than_floats_have_are_texts(tmp_path: Path) -> None:
    table = csv_table(tmp_path, f"a,b\n{'9' * 400},{'9' * 5000}\n1,2\n")
    assert table["a"].to_pylist() == ["9" * 400, "1"]
    assert table["b"].to_pylist() == ["9" * 5000, "2"]


@pytest.mark.parametrize("header", ["a\r,b", f"{'a' * 200_000},b"])
def test_a_csv_header_that_no_reader_takes_is_told(tmp_path: Path, header: str) -> None:
    with pytest.raises(CorruptFileError, match="header"):
        csv_table(tmp_path, f"{header}\n1,2\n")


@pytest.mark.parametrize("options", [{"delimiter": "\0"}, {"delimiter": '"'}, {"comment": ","}])
def test_signs_that_cannot_be_told_apart_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"is not one ASCII character|different characters"):
        CsvOptions(**options)


@pytest.mark.parametrize(
    "cards", [{"NAXIS1": 14.5}, {"NAXIS2": 10**30}, {"TNULL1": "x"}, {"NAXIS2": 1e300}, {"NAXIS2": "x"}]
)
def test_sizes_of_fits_tables_that_are_none_are_told(tmp_path: Path, cards: dict[str, Any]) -> None:
    write(tmp_path / "a.fits", fits.Column("id", "J", array=[1, 2]), **cards)
    with pytest.raises(CorruptFileError, match="the header"):
        read(source("fits", f"{tmp_path}/*"))


def test_an_infinite_null_of_a_fits_column_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a.fits", fits.Column("id", "J", array=[1, 2]), TNULL1=7)
    content = (tmp_path / "a.fits").read_bytes()
    card = b"TNULL1  =                    7"
    assert card in content
    (tmp_path / "a.fits").write_bytes(content.replace(card, b"TNULL1  =                1E999"))
    with pytest.raises(CorruptFileError, match="header is damaged"):
        read(source("fits", f"{tmp_path}/*"))


@pytest.mark.parametrize("size", ["0", "0x*", "3x0"])
def test_arrays_without_room_in_votables_are_refused(tmp_path: Path, size: str) -> None:
    with pytest.raises(InputError, match="no room for a value"):
        binary_table(
            tmp_path, f'<FIELD name="v" datatype="int" arraysize="{size}"/>', bytes(40), kind="BINARY"
        )


def test_a_null_beyond_64_bits_in_a_votable_is_told(tmp_path: Path) -> None:
    field = f'<FIELD name="v" datatype="long"><VALUES null="{"9" * 30}"/></FIELD>'
    rows = "<TABLEDATA><TR><TD>1</TD></TR></TABLEDATA>"
    (tmp_path / "a.vot").write_text(document(field, rows))
    with pytest.raises(CorruptFileError, match="more than 64 bits"):
        read(votable_source(tmp_path))


def test_letters_that_are_no_base64_are_told(tmp_path: Path) -> None:
    data = "<BINARY><STREAM encoding='base64'>AAé=</STREAM></BINARY>"
    (tmp_path / "a.vot").write_text(document('<FIELD name="v" datatype="int"/>', data))
    with pytest.raises(CorruptFileError, match="no base64"):
        read(votable_source(tmp_path))


def test_a_laughing_votable_is_refused(tmp_path: Path) -> None:
    entities = "".join(f"<!ENTITY e{at} '{f'&e{at - 1};' * 10 if at else 'ha' * 50}'>" for at in range(12))
    text = document(
        '<FIELD name="v" datatype="char" arraysize="*"/>', "<TABLEDATA><TR><TD>&e11;</TD></TR></TABLEDATA>"
    )
    (tmp_path / "a.vot").write_text(f"<!DOCTYPE x [{entities}]>{text}")
    with pytest.raises(CorruptFileError, match="amplification"):
        read(votable_source(tmp_path))


def test_a_value_beyond_its_type_in_ecsv_arrays_is_told(tmp_path: Path) -> None:
    header = "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: a, datatype: string, subtype: 'int16[null]'}\n"
    (tmp_path / "a.ecsv").write_text(f'{header}a\n"[{"9" * 30}]"\n')
    with pytest.raises(CorruptFileError, match="column 'a'"):
        read(source("ecsv", f"{tmp_path}/*"))


def test_tags_in_an_ecsv_header_make_no_objects(tmp_path: Path) -> None:
    meta = (
        "# meta: {u: !astropy.units.Unit {unit: m}, p: !!python/object/apply:os.getcwd [], o: !!omap [a: 1]}"
    )
    header = "# %ECSV 1.0\n# ---\n# datatype:\n# - {name: a, datatype: int64, unit: !x m}\n" + meta + "\n"
    (tmp_path / "a.ecsv").write_text(f"{header}a\n1\n")
    assert read(source("ecsv", f"{tmp_path}/*"))["a"].to_pylist() == [1]


def test_half_a_character_in_yaml_is_told(tmp_path: Path) -> None:
    assert "half a character" in spec_message(tmp_path, f'{GOOD}description: "\\ud800"\n')
    header = '# %ECSV 1.0\n# ---\n# datatype:\n# - {name: a, datatype: int64, unit: "\\ud800"}\n'
    (tmp_path / "a.ecsv").write_text(f"{header}a\n1\n")
    with pytest.raises(CorruptFileError, match="half a character"):
        read(source("ecsv", f"{tmp_path}/*.ecsv"))


def test_yaml_whose_aliases_stand_for_more_than_any_memory_holds_is_refused_at_once(tmp_path: Path) -> None:
    names = [chr(ord("a") + at) for at in range(20)]
    lines = ["name: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in pairwise(names)]
    begun = time.process_time()
    assert "aliases stand for more than" in spec_message(tmp_path, "\n".join(lines))
    assert spec_type(tmp_path / "s.yaml") is None
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "value", ["!!int ''", "!!bool x", "!!timestamp x", "!!float ''", "!!binary 'é'", "2026-13-41"]
)
def test_tags_that_do_not_fit_their_value_are_told(tmp_path: Path, value: str) -> None:
    assert "s.yaml" in spec_message(tmp_path, f"{GOOD}description: {value}\n")
    assert spec_type(tmp_path / "s.yaml") is None


def test_yaml_that_is_nested_a_thousand_times_is_told(tmp_path: Path) -> None:
    for text in (f"name: {'[' * 3000}", f"name: {'[' * 200}{']' * 200}"):
        assert "nested more than" in spec_message(tmp_path, text)
        assert spec_type(tmp_path / "s.yaml") is None
        with pytest.raises(YamlError):
            Document(text, PlainLoader)
    with pytest.raises(YamlError, match="nested more than"):
        Document("[" * 5_000_000, PlainLoader)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("parquet: {row_group_rows: 1000000000000000000000}\n", "parquet.row_group_rows"),
        ("source: {uri: /x, format: csv, options: {skip_rows: '18446744073709551616'}}\n", "skip_rows"),
        ('description: "a\\0b"\n', "description"),
    ],
)
def test_specs_hold_only_what_machines_hold(tmp_path: Path, more: str, place: str) -> None:
    text = GOOD.replace("source: {uri: /x, format: csv}\n", "") if "source" in more else GOOD
    assert place in spec_message(tmp_path, text + more)
    with pytest.raises(ValidationError):
        Threshold.parse("99999999999999999999999999 GiB")


def test_cubes_hold_only_what_machines_hold(tmp_path: Path) -> None:
    text = "name: s\ndimension_columns: [a]\npartition_columns: [p]\ndatasets: {seed: {parquet: x}}\n"
    (tmp_path / "s.yaml").write_text(f"{text}file_rows: 18446744073709551616\n")
    with pytest.raises(SpecError, match="64 bits"):
        load_spec(tmp_path / "s.yaml", CubeSpec)


def test_messages_can_be_printed_and_are_no_books() -> None:
    said = str(SchemaMismatchError("column \x1b[31m\ud800\u202e\t'a'\nand " + "x" * 100_000))
    assert said.startswith("column \\x1b[31m\\ud800\\u202e\\t'a'\nand xx")
    assert "characters ..." in said
    assert len(said) < 10_000
    assert str(InputError("é 名前 🔭")) == "é 名前 🔭"


@pytest.mark.parametrize(
    "uri", ["a\0b", "ftp://host/x", "zip://x", "simplecache::s3://b", "~nobody-of-this-name/x"]
)
def test_places_that_are_none_are_refused(uri: str) -> None:
    with pytest.raises(PathError):
        Storage.at(uri)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a\0b", "\ud800"])
def test_paths_that_lead_out_or_nowhere_are_errors_of_ours(tmp_path: Path, path: str) -> None:
    with pytest.raises(HipslakeError):
        Storage.at(tmp_path).read(path)


def test_an_output_of_half_a_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HipslakeError, match="character"):
        output_uri(str(tmp_path), "\ud800.csv")


def test_json_that_is_nested_too_deep_is_damage(tmp_path: Path) -> None:
    with pytest.raises(CatalogFormatError, match="nested"):
        CatalogMetadata.from_json(DEEP)
    with pytest.raises(CatalogFormatError, match="nested"):
        CubeMetadata.from_json(DEEP, "x")
    storage = Storage.at(tmp_path)
    storage.write("_versions/00000001.json", DEEP)
    with pytest.raises(CatalogFormatError, match="nested"):
        VersionLog(storage).find("20261121T0330-7f3a")
    assert mark_from(DEEP.decode()) is None


@pytest.mark.parametrize("version", ["Infinity", "1e999", '"x"', "[]"])
def test_a_pointer_to_no_version_counts_as_none(tmp_path: Path, version: str) -> None:
    Storage.at(tmp_path).write("metadata.json", f'{{"version": {version}}}'.encode())
    assert VersionLog(Storage.at(tmp_path)).newest() is None


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"time": []}', b'{"time": "x"}', b'{"time": 1%s}' % (b"0" * 400), DEEP],
)
def test_a_damaged_mark_does_not_stop_the_sweep(tmp_path: Path, content: bytes) -> None:
    storage = Storage.at(tmp_path)
    storage.write("_versions/swept/20261121T0330-7f3a.json", content)
    assert sweep_orphans(storage, 0) == []


@pytest.mark.parametrize(
    "pixels", [{2: "0-99999999999"}, {29: "0-3458764513820540927"}, {40: "0"}, {1: "-1"}]
)
def test_pixels_that_there_are_not_do_not_fill_the_memory(pixels: dict[int, str]) -> None:
    with pytest.raises(CatalogFormatError, match="pixels"):
        pixels_in(pixels)


def test_numbers_beyond_64_bits_in_metadata_are_told() -> None:
    class Row(Frozen):
        order: int = 1
        npix: int = 10**30
        path: str = "x"
        rows: int = 1
        bytes: int = 1
        sha256: str = ""

    with pytest.raises(CatalogFormatError, match="64 bits"):
        table_of([Row()], PARTITION_SCHEMA)


@pytest.mark.parametrize("text", ["", "AAAA", "é", "!", base64.b64encode(b"x" * 99).decode()])
def test_a_schema_that_is_none_is_told(text: str) -> None:
    with pytest.raises(CatalogFormatError, match="arrow_schema"):
        schema_of_text(text)


def test_tables_of_the_warehouse_that_are_damaged_are_told(tmp_path: Path) -> None:
    storage = Storage.at(tmp_path)
    for content in (b"", b"PAR1", b"PAR1" + bytes(40) + b"PAR1"):
        storage.write("t.parquet", content)
        with pytest.raises(CatalogFormatError, match=r"t\.parquet: is damaged"):
            read_table(storage, "t.parquet")
        sidecar = Sidecar(path="t.parquet", rows=1, sha256=hashlib.sha256(content).hexdigest())
        with pytest.raises(CatalogFormatError, match=r"t\.parquet: is damaged"):
            read_sidecar(storage, sidecar, PARTITION_SCHEMA)


@pytest.mark.parametrize("content", [b"", b"SIMPLE", b"x" * 5000])
def test_a_point_map_that_is_damaged_is_told(content: bytes) -> None:
    with pytest.raises(CatalogFormatError, match="point map is damaged"):
        PointMap.from_fits(content)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"spec": 1}', b'{"spec": {}}', b"\xff", DEEP])
def test_a_frozen_join_that_is_none_is_told(tmp_path: Path, content: bytes) -> None:
    folder = RunFolder(str(tmp_path))
    folder.storage.write(FROZEN, content)
    with pytest.raises(HipslakeError, match=r"frozen.json is not what this library version writes there"):
        frozen_join(folder)


def test_a_moc_of_deep_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.moc").write_bytes(b'{"a":' * 50_000)
    with pytest.raises(SpecError, match="no MOC"):
        read_moc(tmp_path / "a.moc")


_TEXT = '<FIELD name="v" datatype="char" arraysize="*"/>'
_CELL, _STREAM = "<TABLEDATA><TR><TD>", "<BINARY><STREAM encoding='base64'>fwAA"
_BOMBS = {
    "csv": ("csv", b"a,b\n"),
    "ecsv": ("ecsv", b"# %ECSV 1.0\n#"),
    "fits": ("fits", b"SIMPLE  =" + b" " * 71),
    "votable": ("votable", b"<VOTABLE>"),
    "cell": ("votable", document(_TEXT, _CELL).partition("</DATA")[0].encode()),
    "row": ("votable", document(_TEXT, _STREAM).partition("</DATA")[0].encode()),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bomb", _BOMBS)
def test_a_file_that_unpacks_to_very_much_does_not_fill_the_memory(tmp_path: Path, bomb: str) -> None:
    format_, begin = _BOMBS[bomb]
    piece = gzip.compress(b"A" * (32 << 20), 1)
    (tmp_path / "a.gz").write_bytes(gzip.compress(begin) + piece * 12)  # members follow one another: 384 MiB
    begun = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(HipslakeError):
            read(source(format_, f"{tmp_path}/*"))
        assert tracemalloc.get_traced_memory()[1] < 340 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - begun < 30


def test_shapes_of_more_digits_than_python_reads_are_refused(tmp_path: Path) -> None:
    header = (
        f"# %ECSV 1.0\n# ---\n# datatype:\n# - {{name: a, datatype: string, subtype: 'int8[{'9' * 5000}]'}}\n"
    )
    (tmp_path / "a.ecsv").write_text(f"{header}a\n1\n")
    with pytest.raises(InputError, match="subtype"):
        read(source("ecsv", f"{tmp_path}/*"))


def test_a_moc_that_mocpy_panics_about_is_refused(tmp_path: Path) -> None:
    from mocpy import MOC

    MOC.from_string("3/1-4", "ascii").save(tmp_path / "good.fits", format="fits")
    content = (tmp_path / "good.fits").read_bytes()
    for kept in (400, 3000, 5000):
        (tmp_path / "a.fits").write_bytes(b"SIMPLE" + content[6:kept])
        with pytest.raises(SpecError, match=r"no FITS file of a MOC|no MOC"):
            read_moc(tmp_path / "a.fits")


def test_half_floats_are_compared() -> None:
    table = pa.table({"half": pa.array(np.array([1.5, 2.5, np.nan], np.float16))})
    assert parse_conditions("half < 2", table.schema).meeting(table)["half"].to_pylist() == [1.5]


def test_reports_that_are_none_are_left_out(tmp_path: Path) -> None:
    pytest.importorskip("airflow")
    from hipslake.steps.run import run_uri

    from tests.airflow_home import HOME

    assert HOME  # Airflow's home is the tests' own
    from hipslake_airflow.web.runs import reports

    folder = Storage.at(run_uri(str(tmp_path), "d", "r"))
    for at, content in enumerate((b"", b"[]", b"{}", b'{"step": 1, "error": 5}', DEEP)):
        folder.write(f"reports/{at}.json", content)
    folder.write("reports/x.json", json.dumps({"step": "plan"}).encode())
    assert [report.step for report in reports(str(tmp_path), "d", "r")] == ["plan"]
