"""What delta-rs writes to Delta tables, for tests. For the peers' interpreter.

`others_write_delta.py LOCATION WHAT [ARGUMENT]`, where WHAT is one of:

- `create N`: a table of N rows, partitioned by `group`, in three commits, with a checkpoint after the second
- `append ID`: one row
- `delete FILTER`
- `restore VERSION`
- `update FILTER`: 100 is added to the values
- `optimize`: files are brought together
- `vacuum`: of all that no version has, whatever its age
- `check APPLICATION`: print version, protocol, the number of the application, and the operations of the
history - `actions`: commit as delta-rs lets callers, on top of a version that is not the newest any more;
print what came
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake


def rows(ids: list[int], value: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "group": [f"g{each % 3}" for each in ids],
            "value": pa.array([value] * len(ids), pa.int64()),
            "ts": pa.array(
                [datetime(2026, 1, 1 + each % 5, tzinfo=UTC) for each in ids], pa.timestamp("us", "UTC")
            ),
        }
    )


def main(location: str, what: str, argument: str = "") -> Any:
    if what == "create":
        third = int(argument) // 3
        for part in range(3):
            some = rows(list(range(part * third, (part + 1) * third)), -1)
            write_deltalake(location, some, mode="append", partition_by=["group"])
            if part == 1:
                DeltaTable(location).create_checkpoint()
        return None
    if what == "append":
        return write_deltalake(location, rows([int(argument)], -2), mode="append")
    table = DeltaTable(location)
    if what == "delete":
        return table.delete(argument)
    if what == "update":
        return table.update(updates={"value": "value + 100"}, predicate=argument)
    if what == "optimize":
        return table.optimize.compact()
    if what == "vacuum":
        return table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    if what == "restore":
        return table.restore(int(argument))
    protocol = table.protocol()
    return {
        "version": table.version(),
        "protocol": [protocol.min_reader_version, protocol.min_writer_version],
        "number": table.transaction_version(argument),
        "operations": [each["operation"] for each in table.history()],
        "rows": table.count(),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:]), default=str))
