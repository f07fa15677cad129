"""What a published catalog must read as, for scripts in the peers' environment and in ours.

Needs pyarrow and pandas only; run as a script's neighbour, not as part of the tests' packages.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds


class Reading(NamedTuple):
    """One column group of a catalog: where plain readers find it, and by what its rows are told apart."""

    catalog: str
    group: str
    folder: str  # below the catalog's root; "" where a glob is needed
    glob: str
    key: str


READINGS = (
    Reading("gaia_dr3", "main", "current/main/dataset", "current/main/dataset/*/*/*.parquet", "source_id"),
    Reading("hipparcos_hats", "main", "current/main/dataset", "current/main/dataset/*/*/*.parquet", "HIP"),
    Reading("hipparcos", "main", "", "current/Norder=*/Npix=*/main.parquet", "_row"),
    Reading("hipparcos", "details", "", "current/Norder=*/Npix=*/details.parquet", "_row"),
)


def source(landing: Path, catalog: str) -> pa.Table:
    """The rows that a catalog was made of, by plain pyarrow; `_row` numbers those of a single file."""
    if catalog == "gaia_dr3":
        return ds.dataset(sorted((landing / "gaia_dr3").glob("*.parquet"))).to_table()
    table = pacsv.read_csv(landing / "hipparcos" / "hipparcos.csv.gz")
    return table.append_column("_row", pa.array(range(table.num_rows), pa.int64()))


def difference(found: pa.Table, expected: pa.Table, key: str) -> str:
    """Say how two tables differ in the columns that both have, or "" if they do not. `key` is unique."""
    names = [name for name in expected.column_names if name in found.column_names]
    ours, theirs = (table.select(names).sort_by(key) for table in (found, expected))
    # Only columns that Arrow does not call equal (of other types, with NaN) are worth pandas' comparison.
    unequal = [name for name in names if not ours[name].equals(theirs[name])]
    frames = [table.select(unequal).to_pandas(types_mapper=pd.ArrowDtype) for table in (ours, theirs)]
    try:
        pd.testing.assert_frame_equal(*frames, check_dtype=False, check_exact=True)
    except AssertionError as error:
        return str(error)
    return ""
