"""`source.columns` of a spec: what is wrong with it is told with its line, when the spec is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipslake.errors import SpecError
from hipslake.specs.catalog_spec import CatalogSpec
from hipslake.specs.spec_folder import load_spec

SPEC = """\
name: stars
source:
  uri: /survey/*.parquet
  format: parquet
  columns:
{columns}
position: {{ra: ra, dec: dec}}
"""


def load(place: Path, columns: str) -> CatalogSpec:
    path = place / "stars.yaml"
    path.write_text(SPEC.format(columns=columns))
    return load_spec(path, CatalogSpec)


def test_a_spec_prints_what_was_written(tmp_path: Path) -> None:
    spec = load(tmp_path, "    drop: junk\n    derive:\n      mag: |\n        25\n        - log10(f)\n")
    columns = spec.source.columns
    assert columns is not None
    assert columns.drop == ("junk",)
    assert columns.derive == {"mag": "25\n- log10(f)\n"}
    assert CatalogSpec.model_validate(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            "    derive: {mag: 25 - log11(flux)}",
            r":6: source\.columns\.derive\.mag: .* 'log11', at line 1, column 6; did you mean log10",
        ),
        (
            "    derive:\n      ra: 15 * h\n      mag: (2",
            r":8: .*derive\.mag: expected '\)', found the end",
        ),
        ("    cast: {x: int}", r":6: source\.columns\.cast\.x: 'int' is no Arrow type; write bool, int8"),
        ("    drop: [a, a]", r"source\.columns\.drop: a stands twice"),
        ("    {select: a, drop: a}", r"drop: a is selected"),
        ("    rename: {a: c, b: c}", r"rename: two columns become c"),
        ("    {}", r"says nothing; give select, drop, rename, cast or derive"),
        ("    derived: {x: y}", r"unknown key; did you mean 'derive'"),
        ("    derive: {x: 1}", r"derive\.x: 1 does not fit; write a text, in quotes"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, columns: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        load(tmp_path, columns)


def test_the_fingerprint_of_a_spec_follows_its_expressions(tmp_path: Path) -> None:
    texts = {
        load(tmp_path, f"    {said}").fingerprint_text()
        for said in ("drop: a", "derive: {x: y + 1}", "derive: {x: y + 2}")
    }
    assert len(texts) == 3
