"""Files of every astronomical format become a catalog: values, nulls, units and descriptions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from astropy.table import MaskedColumn, Table
from hipslake import Catalog
from hipslake.engine.this_process import ThisProcess
from hipslake.steps.frozen_run import FrozenRun
from hipslake.steps.ingest import histogram as histogram_work
from hipslake.steps.ingest.request import HistogramReport, HistogramRequest
from hipslake.steps.report import perform

from tests.steps import in_process

ROWS = 900


def stars() -> Table:
    rng = np.random.default_rng(3)
    table = Table(
        {
            "id": np.arange(ROWS),
            "ra": rng.uniform(0, 360, ROWS),
            "dec": np.degrees(np.arcsin(rng.uniform(-1, 1, ROWS))),
            "mag": MaskedColumn(rng.normal(12, 2, ROWS).astype("f4"), mask=rng.random(ROWS) < 0.1),
            "visits": MaskedColumn(rng.integers(0, 99, ROWS).astype("i2"), mask=rng.random(ROWS) < 0.1),
            "name": [f"star {number}" for number in range(ROWS)],
            "colors": rng.normal(0, 1, (ROWS, 3)),
        }
    )
    for name in ("ra", "dec"):
        table[name].unit = "deg"
    table["mag"].unit = "mag"
    table["mag"].description = "Mean magnitude in G"
    return table


@pytest.mark.parametrize("name", ["fits", "votable", "ecsv"])
def test_a_catalog_has_the_values_nulls_units_and_descriptions_of_the_files(
    tmp_path: Path, name: str
) -> None:
    table = stars()
    landing = tmp_path / "landing"
    landing.mkdir()
    for number in range(3):
        table[number * 300 : (number + 1) * 300].write(
            landing / f"{number}.{name}", format={"ecsv": "ascii.ecsv"}.get(name, name)
        )
    spec = in_process.write_spec(tmp_path / "stars.yaml", f"{landing}/*")
    spec.write_text(spec.read_text().replace("format: parquet", f"format: {name}"))
    folder = in_process.start(tmp_path / "warehouse", spec)
    in_process.freeze(folder)
    counted = perform(
        lambda request: histogram_work.run(request, ThisProcess()),
        HistogramRequest(run_uri=folder.uri, split_target_bytes=4096),
        HistogramReport,
    )
    assert counted.rows_out == ROWS
    assert counted.splits == 3 if name == "votable" else counted.splits > 3
    for step in (in_process.make_plan, in_process.write_leaves, in_process.check, in_process.commit):
        step(folder)
    catalog = Catalog.open(FrozenRun.of(folder).catalog_uri)
    found = catalog.read().sort_by("id")
    for column in table.colnames:
        assert found[column].to_pylist() == table[column].tolist(), column
    columns = {column.name: column for column in catalog.metadata.groups[0].columns}
    assert [columns[each].unit for each in ("id", "ra", "dec", "mag")] == [None, "deg", "deg", "mag"]
    assert columns["mag"].description == "Mean magnitude in G"
    assert found.schema.field("mag").metadata == {b"unit": b"mag", b"description": b"Mean magnitude in G"}
