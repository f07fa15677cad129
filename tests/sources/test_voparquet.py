"""VOParquet: what the VOTable in a footer says of columns is published, and astropy writes such files."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from astropy import units
from astropy.table import Table

from tests.sources import reading


def written_by_astropy(path: Path) -> Table:
    table = Table({"ra": [1.0, 2.0, 3.0], "mag": np.array([11.5, 12.0, 13.0], "f4"), "n": [1, 2, 3]})
    table["ra"].unit, table["mag"].unit = units.deg, units.mag
    ucds = {"ra": "pos.eq.ra;meta.main", "mag": "phot.mag;em.opt.G", "n": "meta.number"}
    texts = {"ra": "Right ascension", "mag": "Magnitude in G", "n": "Visits"}
    about = {
        name: {"unit": table[name].unit, "ucd": ucds[name], "description": texts[name], "utype": ""}
        for name in table.colnames
    }
    table.write(path, format="parquet.votable", metadata=about)
    return table


def test_units_ucds_and_descriptions_come_from_the_footer(tmp_path: Path) -> None:
    table = written_by_astropy(tmp_path / "a.parquet")
    found = reading.read(reading.source("parquet", tmp_path / "*.parquet"))
    assert found["mag"].to_pylist() == table["mag"].tolist()
    assert reading.told(found, "ra") == ("deg", "Right ascension")
    assert reading.told(found, "mag") == ("mag", "Magnitude in G")
    assert (found.schema.field("mag").metadata or {})[b"ucd"] == b"phot.mag;em.opt.G"
    assert (found.schema.field("n").metadata or {})[b"ucd"] == b"meta.number"
    assert not found.schema.metadata


def test_what_a_column_says_of_itself_goes_before_the_footer(tmp_path: Path) -> None:
    written_by_astropy(tmp_path / "a.parquet")
    plain = pq.read_table(tmp_path / "a.parquet")
    at = plain.schema.get_field_index("mag")
    schema = plain.schema.set(at, plain.schema.field("mag").with_metadata({"unit": "mmag"}))
    pq.write_table(plain.cast(schema), tmp_path / "a.parquet")
    found = reading.read(reading.source("parquet", tmp_path / "*.parquet"))
    assert reading.told(found, "mag") == ("mmag", "Magnitude in G")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no XML",
        b"<VOTABLE>",
        b"<a/>",
        b"\xff\xfe",
        b"<!DOCTYPE a [<!ENTITY b 'c'>]><VOTABLE>&b;</VOTABLE>",
    ],
)
def test_a_damaged_votable_takes_nothing_from_the_rows(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    table = pa.table({"x": [1, 2]}).replace_schema_metadata({"IVOA.VOTable-Parquet.content": content})
    pq.write_table(table, tmp_path / "a.parquet")
    with caplog.at_level(logging.WARNING):
        found = reading.read(reading.source("parquet", tmp_path / "*.parquet"))
    assert found["x"].to_pylist() == [1, 2]
    assert not content or "a.parquet" in caplog.text
