"""What delta-rs changes in Delta tables of random operations. For the peers' interpreter.

`others_change_delta.py LOCATION WHAT ROWS PARTITION [FILTER]`, where WHAT is `insert`, `delete`, `update`,
`merge`, `compact` or `z_order`, ROWS a Parquet file, and PARTITION the columns of partitions as JSON.
"""

from __future__ import annotations

import json
import sys

import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake


def main(location: str, what: str, path: str, partition: str, argument: str = "") -> None:
    rows, columns = pq.read_table(path), json.loads(partition)
    table = DeltaTable(location)
    if what == "insert":
        write_deltalake(table, rows, mode="append", partition_by=columns or None)
    elif what == "delete":
        table.delete(argument)
    elif what == "update":
        table.update(updates={"x": "7.25"}, predicate=argument)
    elif what == "merge":
        merger = table.merge(rows, "old.id = new.id", source_alias="new", target_alias="old")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
    elif what == "compact":
        table.optimize.compact()
    else:
        table.optimize.z_order(["id", "x"])


if __name__ == "__main__":
    main(*sys.argv[1:])
