"""Tables that follow a catalog, for tests: the spec, what it should hold, and nights that are corrected."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.catalog.plain_changes import rows_of
from tests.steps.nights import Survey
from tests.steps.sinks import COLUMNS, Lake, told

FOLLOWS = 'source: {catalog: stars, changes: true}\npartition: ["healpix[2]", night]\nmode: upsert\nkey: id\n'


def catalog_rows(survey: Survey, columns: tuple[str, ...] = COLUMNS) -> pa.Table:
    """What the leaf files of the newest version hold, by id."""
    rows = rows_of(survey.root, survey.catalog.version)
    return rows.select(list(columns)).sort_by("id").combine_chunks()


def assert_follows(lake: Lake, survey: Survey) -> None:
    assert lake.rows(*COLUMNS).combine_chunks().equals(catalog_rows(survey))
    assert told(lake.resolve()).orders == ()


def corrected(rows: pa.Table, seed: int) -> pa.Table:
    """Some rows are gone, some have another magnitude, and some another place or night."""
    rng = np.random.default_rng(seed)
    rows = rows.filter(pa.array(rng.random(rows.num_rows) > 0.1))
    dice = rng.random(rows.num_rows)
    mag = np.where(dice < 0.2, -1.0 * seed, rows["mag"].to_numpy())
    dec = np.where((dice > 0.15) & (dice < 0.3), -rows["dec"].to_numpy(), rows["dec"].to_numpy())
    return rows.set_column(3, "mag", pa.array(mag)).set_column(2, "dec", pa.array(dec))
