"""What LSDB, hats, DuckDB and pyarrow say of published catalogs. For the peers' interpreter.

`peers_agree.py LANDING CATALOGS` prints JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import lsdb
import pyarrow as pa
import pyarrow.dataset as ds
from agreeing import READINGS, Reading, difference, source
from hats.io.validation import is_valid_catalog


def by_pyarrow(root: Path, reading: Reading) -> pa.Table:
    if reading.folder:
        return ds.dataset(root / reading.folder, partitioning=None).to_table()
    return ds.dataset(sorted(root.glob(reading.glob)), partitioning=None).to_table()


def by_duckdb(root: Path, reading: Reading) -> pa.Table:
    query = f"SELECT * FROM read_parquet('{root / reading.glob}', hive_partitioning=false)"
    found = duckdb.sql(query).arrow()
    return found if isinstance(found, pa.Table) else found.read_all()


def by_lsdb(root: Path, reading: Reading) -> pa.Table:
    return pa.Table.from_pandas(lsdb.open_catalog(root).compute().reset_index(), preserve_index=False)


def main(landing: Path, catalogs: Path) -> list[dict[str, Any]]:
    told = []
    for reading in READINGS:
        root, expected = catalogs / reading.catalog, source(landing, reading.catalog)
        readers = {"pyarrow": by_pyarrow, "duckdb": by_duckdb}
        valid = []
        if reading.folder:
            readers["lsdb"] = by_lsdb
            valid = [
                is_valid_catalog(root, strict=True),
                is_valid_catalog(root / "current/main", strict=True),
            ]
        for name, read in readers.items():
            found = read(root, reading)
            told.append(
                {
                    "reader": name,
                    "catalog": reading.catalog,
                    "group": reading.group,
                    "rows": found.num_rows,
                    "columns": found.column_names,
                    "difference": difference(found, expected, reading.key),
                    "valid": all(valid),
                }
            )
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]))))
