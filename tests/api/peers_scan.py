"""What polars, DuckDB, dask and LSDB give of scans, in the peers' interpreter.

`peers_scan.py LIBRARY OUT`: one JSON object comes in, with `uri` and `questions`; each is what is asked
(`via`, `columns`, `filters`, `region`, `pixels`, `group`). The answer number n is written to `OUT/n.arrow`.
`LIBRARY` is a folder that holds hipslake and healpy, which the peers' environment lacks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.append(sys.argv[1])

from hipslake import Catalog
from hipslake.api.scan import Scan


def by_polars(scan: Scan) -> pa.Table:
    return scan.to_polars().collect().to_arrow()


def by_polars_query(scan: Scan) -> pa.Table:
    """Rows that a filter of polars leaves, of a column and of the first ones."""
    import polars as pl

    lazy = scan.to_polars()
    whole = lazy.filter(pl.col("id") > 2000).select("id", "mag").collect()
    assert whole.equals(lazy.collect().filter(pl.col("id") > 2000).select("id", "mag"), null_equal=True)
    assert (
        lazy.head(7)
        .filter(pl.col("id") > 2000)
        .collect()
        .equals(lazy.collect().head(7).filter(pl.col("id") > 2000))
    )
    assert (
        lazy.filter(pl.col("id") > 2000)
        .head(7)
        .collect()
        .equals(lazy.collect().filter(pl.col("id") > 2000).head(7))
    )
    assert lazy.select(pl.len()).collect().item() == lazy.collect().height
    return whole.to_arrow()


def by_duckdb(scan: Scan) -> pa.Table:
    import duckdb

    relation = scan.to_duckdb(duckdb.connect())
    first = _arrow(relation)
    assert _arrow(relation).num_rows == first.num_rows, "a relation can be asked again"
    return first


def by_duckdb_query(scan: Scan) -> pa.Table:
    """Rows that a filter of SQL leaves, of two columns."""
    import duckdb

    relation = scan.to_duckdb(duckdb.connect())
    assert relation.aggregate("count(*) as n").fetchall() == [(scan.count(),)]
    return _arrow(relation.filter("id > 2000").project("id, mag"))


def by_dask(scan: Scan) -> pa.Table:
    import dask

    frame = scan.to_dask()
    with dask.config.set(scheduler="synchronous"):
        rows = frame.compute()
    assert list(frame.columns) == list(rows.columns)
    assert (frame.dtypes == rows.dtypes).all()
    return pa.Table.from_pandas(rows, preserve_index=False)


def by_lsdb(scan: Scan) -> pa.Table:
    rows = scan.to_lsdb().compute()
    return pa.Table.from_pandas(rows.reset_index(), preserve_index=False)


def by_lsdb_margin(scan: Scan) -> pa.Table:
    """The rows of the margin that the catalog is opened with."""
    rows = scan.to_lsdb().margin.compute()
    return pa.Table.from_pandas(rows.reset_index(), preserve_index=False)


def _arrow(relation: Any) -> pa.Table:
    found = relation.arrow()
    return found if isinstance(found, pa.Table) else found.read_all()


def main(library: str, out: Path, asked: dict[str, Any]) -> None:
    catalog = Catalog.open(asked["uri"])
    for number, question in enumerate(asked["questions"]):
        by = globals()[f"by_{question.pop('via')}"]
        table = by(catalog.scan(**question)).replace_schema_metadata(None).unify_dictionaries()
        with (
            pa.OSFile(str(out / f"{number}.arrow"), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as writer,
        ):
            writer.write_table(table)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.load(sys.stdin))
