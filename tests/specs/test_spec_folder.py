"""Spec files: the mistakes that people make, and the line, key and mend that they are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.errors import SpecError
from hipslake.specs.adopt_spec import AdoptSpec
from hipslake.specs.catalog_spec import CatalogSpec, Layout
from hipslake.specs.environment import PROJECT_ROOT
from hipslake.specs.spec_folder import SpecFolder, find_specs, load_spec
from hipslake.specs.threshold import Threshold

GOOD = """\
name: stars
source:
  uri: /data/*.csv
  format: csv
  options:
    delimiter: ";"
position: {ra: ra, dec: dec}
threshold: 20k rows
"""


def write(folder: Path, text: str, name: str = "stars.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def message_of(folder: Path, text: str) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(write(folder, text), CatalogSpec)
    return str(caught.value).replace(f"{folder}/", "")


def test_good_file_becomes_a_spec(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path, GOOD), CatalogSpec)
    assert spec.name == "stars"
    assert spec.threshold == Threshold.parse("20000 rows")


def test_byte_order_mark_and_crlf_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "stars.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_spec(path, CatalogSpec).name == "stars"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("threshold:", "threshhold:", "stars.yaml:8: threshhold: unknown key; did you mean 'threshold'?"),
        (
            "    delimiter:",
            "    delimitr:",
            "stars.yaml:6: source.options.delimitr: unknown key; did you mean 'delimiter'?",
        ),
        ("20k rows", "20000", "stars.yaml:8: threshold: 20000 has no unit; write it as '20000 rows'"),
        (
            "format: csv",
            "format: cvs",
            "stars.yaml:4: source.format: 'cvs' does not fit; write 'parquet', 'csv', 'fits', 'votable', "
            "'ecsv' or 'avro'",
        ),
        (", dec: dec}", "}", "stars.yaml:7: position.dec: is missing; add it"),
        ("name: stars\n", "", "stars.yaml:1: name: is missing; add it"),
        (
            "name: stars",
            "name: galaxies",
            "stars.yaml:1: name: 'galaxies' is not the file's name; write 'name: stars'",
        ),
        (
            "name: stars",
            "name: My Stars",
            "stars.yaml:1: name: 'My Stars' is no name; use lower-case letters",
        ),
        ("threshold: 20k rows", "name: stars", "stars.yaml:8: name: stands twice, first in line 1; keep one"),
        (
            '    delimiter: ";"',
            '    delimiter: ";"\n    delimiter: ","',
            "stars.yaml:7: source.options.delimiter: stands twice, first in line 6; keep one",
        ),
        ("threshold: 20k rows", "threshold: [", "stars.yaml:9:1: not YAML:"),
        ("threshold: 20k rows", "\tthreshold: 1", "stars.yaml:8:1: not YAML:"),
        (
            "threshold: 20k rows",
            "column_groups:\n- name: a\n- name: b",
            "stars.yaml:8: column_groups: only one group can take all other columns",
        ),
        (
            "threshold: 20k rows",
            "column_groups:\n- name: a\n  column: [x]",
            "stars.yaml:10: column_groups[0].column: unknown key; did you mean 'columns'?",
        ),
        ("threshold: 20k rows", "zzz: 1", "stars.yaml:8: zzz: unknown key; known keys are name, description"),
        (
            "threshold: 20k rows",
            "mapping_order: 77",
            "stars.yaml:8: mapping_order: 77 does not fit; write a number of at most 14",
        ),
    ],
)
def test_mistake_is_told_with_line_key_and_mend(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    assert message_of(tmp_path, GOOD.replace(old, new)).startswith(message)


def test_every_mistake_of_a_file_is_told_at_once_in_order(tmp_path: Path) -> None:
    text = GOOD.replace("format: csv", "format: csv\n  url: x").replace("20k rows", "20k\nlayout: fits")
    assert [line.split(": ")[0] for line in message_of(tmp_path, text).splitlines()] == [
        "stars.yaml:5",
        "stars.yaml:9",
        "stars.yaml:10",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("- a\n", "a spec is keys with values"),
        ("name: stars\x07\n", "not YAML"),
        ("source:\n  uri: {{ landing }}\n", "stars.yaml:2: source.uri: braces or brackets stand where a key"),
        ("? [a, b]\n: 1\n", "stars.yaml:1: braces or brackets stand where a key"),
        ("name: &all [*all]\n", "name[0]: stands for something that it is a part of"),
    ],
)
def test_files_that_hold_no_spec(tmp_path: Path, text: str, message: str) -> None:
    assert message in message_of(tmp_path, text)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"gone\.yaml: cannot be read: No such file"):
        load_spec(tmp_path / "gone.yaml", CatalogSpec)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(SpecError, match=r"latin\.yaml: byte 9 is not UTF-8"):
        load_spec(tmp_path / "latin.yaml", CatalogSpec)


def test_a_wrong_key_that_an_alias_brings_is_told(tmp_path: Path) -> None:
    text = GOOD.replace("position: {", "position: &place {") + "<<: *place\n"
    assert "ra: unknown key; known keys are name" in message_of(tmp_path, text)


def test_two_files_of_one_name_are_both_refused(tmp_path: Path) -> None:
    both = [write(tmp_path, GOOD), write(tmp_path, GOOD, "stars.yml")]
    for path, other in (both, both[::-1]):
        with pytest.raises(SpecError, match=rf"{path}: {other.name} beside it has the same name"):
            load_spec(path, CatalogSpec)


def test_specs_of_a_folder_are_found_by_name_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", ".hidden.yaml", "_draft.yaml", "notes.txt"):
        write(tmp_path, GOOD, name)
    assert [path.name for path in find_specs(tmp_path)] == ["a.yml", "b.yaml"]


def test_shipped_specs_load() -> None:
    folder = SpecFolder(PROJECT_ROOT / "include/specs")
    adopted = {spec.name: spec for spec in folder.loaded(AdoptSpec)}
    assert sorted(adopted) == ["nearby_stars"]
    assert adopted["nearby_stars"].margin.arcsec == (300.0,)  # what gaia_x_nearby needs
    specs = {spec.name: spec for spec in folder.loaded(CatalogSpec)}
    assert sorted(specs) == ["gaia_dr3", "hipparcos", "hipparcos_hats"]
    assert specs["gaia_dr3"].layout is Layout.HATS
    assert str(specs["gaia_dr3"].threshold) == "20000 rows"
    assert "CC BY-SA 3.0 IGO" in specs["gaia_dr3"].attribution
    assert specs["hipparcos"].layout is Layout.HIPSCAT
    assert [group.name for group in specs["hipparcos"].column_groups] == ["main", "details"]
    assert (
        specs["hipparcos"].threshold_of("main").unit
        == specs["hipparcos"].threshold_of("details").unit
        == "bytes"
    )
    assert specs["hipparcos_hats"].source == specs["hipparcos"].source
    assert specs["hipparcos_hats"].position == specs["hipparcos"].position
    assert specs["hipparcos_hats"].margin.arcsec == (
        300.0,
    )  # what include/specs/joins/gaia_x_hipparcos.yaml needs


def test_the_key_on_is_no_truth(tmp_path: Path) -> None:
    text = GOOD + "position_from: {catalog: objects, on: {object_id: id}}\n"
    given = load_spec(write(tmp_path, text), CatalogSpec).position_from
    assert given is not None
    assert (given.column, given.key) == ("object_id", "id")
    joined = "position_from: {catalog: objects, on: {a: id, b: id}}\n"
    assert message_of(tmp_path, GOOD + joined).startswith("stars.yaml:9: position_from.on: names 2 pairs")
    itself = "position_from: {catalog: stars, on: {object_id: id}}\n"
    assert "is this catalog itself" in message_of(tmp_path, GOOD + itself)
