"""Nights in radians, in column groups that both have the source's positions. Run by its commit's code."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.steps.nights import Survey, night_rows

GROUPS = {
    "named": ("[id, ra, dec]", '"*"'),
    "rest": ("[id, mag]", '"*"'),
    "further": ("[id, mag]", "[ra, dec, night]"),
}
SPEC = """\
name: {name}
mode: append
source: {{uri: "{place}/landing/night={{{{ night }}}}/*.parquet", format: parquet}}
position: {{ra: ra, dec: dec, unit: rad}}
mapping_order: 4
column_groups:
  - {{name: main, columns: {main}, threshold: 60 rows}}
  - {{name: details, columns: {details}, threshold: 90 rows}}
"""


class Radians(Survey):
    """Nights whose positions are in radians; the name says which group names them."""

    def __init__(self, place: Path, name: str) -> None:
        main, details = GROUPS[name]
        text = SPEC.format(name=name, place=place, main=main, details=details)
        super().__init__(place, spec_text=text, runs=100)
        self.name = name

    @property
    def spec(self) -> Path:
        """The spec, in a file of the catalog's name."""
        path = self.place / f"{self.name}.yaml"
        path.write_text(self.spec_text)
        return path

    @property
    def root(self) -> Path:
        """Of the catalog."""
        return self.place / "warehouse" / "catalogs" / self.name


def night(number: int, rows: int = 70) -> pa.Table:
    """A night in radians."""
    table = night_rows(number, rows)
    for at, name in ((1, "ra"), (2, "dec")):
        table = table.set_column(at, name, pa.array(np.radians(table[name].to_numpy())))
    return table


def main(place: Path) -> None:
    """Leave a catalog of two nights of each name in a folder."""
    for name in GROUPS:
        survey = Radians(place, name)
        for number in range(2):
            survey.land(number, night(number))
            survey.append(number)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
