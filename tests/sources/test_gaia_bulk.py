"""The bulk form of Gaia DR3: gzipped ECSV with commas, whose nulls are written `null`."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from astropy.table import Table
from hipslake.errors import SchemaMismatchError

from tests.sources import reading

HEADER = """\
# %ECSV 1.0
# ---
# delimiter: ','
# datatype:
# -
#   name: solution_id
#   datatype: int64
#   description: Solution Identifier
# -
#   name: designation
#   datatype: string
# -
#   name: ra
#   datatype: float64
#   unit: deg
# -
#   name: dec
#   datatype: float64
#   unit: deg
# -
#   name: parallax
#   datatype: float64
#   unit: mas
# -
#   name: rv_nb_transits
#   datatype: int16
# -
#   name: has_xp_continuous
#   datatype: bool
# -
#   name: libname_gspphot
#   datatype: string
solution_id,designation,ra,dec,parallax,rv_nb_transits,has_xp_continuous,libname_gspphot
"""
ROWS = """\
1636148068921376768,"Gaia DR3 4295806720",44.996155378645,0.005615226341,0.354330559,null,"False","MARCS"
1636148068921376768,"Gaia DR3 34361129088",45.00432028915398,0.021047763781174733,null,12,"True",null
1636148068921376768,"Gaia DR3 38655544960",45.0049742449841,0.0198796757018,3.138456345,null,"False","null"
"""


def land(folder: Path) -> Path:
    path = folder / "GaiaSource_000000-003111.csv.gz"
    path.write_bytes(gzip.compress((HEADER + ROWS).encode()))
    return path


def test_nulls_of_gaia_are_null_as_astropy_has_them(tmp_path: Path) -> None:
    path = land(tmp_path)
    found = reading.read(reading.source("ecsv", path, null_values=["", "null"]))
    expected = Table.read(path, format="ascii.ecsv", fill_values=("null", "0"))
    for name in expected.colnames:
        assert found[name].to_pylist() == expected[name].tolist(), name
    assert found["parallax"].null_count == 1
    assert str(found.schema.field("rv_nb_transits").type) == "int16"
    assert reading.told(found, "parallax")[0] == "mas"


def test_without_the_option_the_text_null_is_told_with_its_line(tmp_path: Path) -> None:
    path = land(tmp_path)
    said = r"line 34: column 'rv_nb_transits': .*'null' .*add the text to source\.options\.null_values"
    with pytest.raises(SchemaMismatchError, match=said):
        reading.read(reading.source("ecsv", path))
