"""Footers that contradict themselves: all that reads leaves refuses them; nothing ends its process or waits.

pyarrow ends the process that asks such a footer for its columns, and a scan with a filter never ends
(`hipslake.storage.column_chunks`), so catalogs are read in a process of their own here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hipslake import Catalog

from tests.catalog.publishing import SHAPES, publish

_READ = """
import faulthandler
import re
import sys
import numpy as np
from hipslake import Catalog
from hipslake.catalog.border_rows import border_rows
from hipslake.catalog.joining.sides import largest_shift_in
from hipslake.catalog.joining.stretches import plan_stretches
from hipslake.catalog.joining.right_rows import RowsByIdentity
from hipslake.cube.store.cube_files import read_rows
from hipslake.errors import VerificationError
from hipslake.predicates.conditions import C, Conjunction
from hipslake.specs.join_specs import MotionColumns
from hipslake.sphere.intervals import Intervals
from hipslake.sphere.regions import Cone

faulthandler.dump_traceback_later(60, exit=True)
root, column, h29, row = sys.argv[1], sys.argv[2], np.array([int(sys.argv[3])]), np.array([int(sys.argv[4])])
catalog = Catalog.open(root)
storage, metadata = catalog.storage, catalog.metadata
group = next(group.name for group in metadata.groups if column in metadata.schema_of(group.name).names)
schema = metadata.schema_of(group)
files = metadata.partitions(group, storage).to_pylist()
paths = [file["path"] for file in files]
REASON = re.compile("mismatch|not match|is of type")
zero = 0.0 if column == "mag" else 0

def border():
    here = Intervals.union(h29, h29 + 1)
    files = metadata.partitions(None, storage).to_pylist()
    schema = metadata.schema_of()
    for file in files:
        list(border_rows(storage, file["path"], file["bytes"], schema, metadata.position, here))

READERS = {
    "all rows": lambda: catalog.read([column]),
    "a region": lambda: catalog.read([column], region=Cone(10, 10, 180)),
    "a filter": lambda: catalog.read([column], filters=f"{column} > 0"),
    "rows by identity": lambda: RowsByIdentity(storage, metadata, [column]).fetch(h29, row),
    "a border": border,
    "stretches": lambda: plan_stretches(storage, metadata, 10),
    "shifts": lambda: largest_shift_in(storage, [paths], MotionColumns(pmra=column, pmdec=column), 1.0),
    "rows of a cube": lambda: read_rows(storage, paths, schema, Conjunction.of(C(column) > zero)),
}
for what, read in READERS.items():
    try:
        read()
    except VerificationError as error:
        print(f"{what}: refused" if REASON.search(str(error)) else f"{what}: {error}")
    else:
        print(f"{what}: given")
problems = catalog.verify().problems
named = {problem.path for problem in problems if REASON.search(problem.message)}
print("verified:", "named" if set(paths) <= named else named)
"""
BY_PLACE = {"a border", "stretches"}  # ask for `_healpix_29` only


def not_null(footer: bytes, column: str) -> bytes:
    """A footer in which a column has no nulls; the sizes of its chunks are of one that may have some."""
    element = b"\x25\x02\x18" + bytes([len(column)]) + column.encode()  # in Thrift: how often, and the name
    return footer.replace(element, element.replace(b"\x02", b"\0", 1))


def of_another_type(footer: bytes, column: str) -> bytes:
    """A footer in which chunks of a column are of no type that exists."""
    name = b"\x18" + bytes([len(column)]) + column.encode()
    chunk = rb"(?s)(\x1c\x15)(.)(\x19.{1,6}?\x19" + re.escape(name) + rb")"
    return re.sub(chunk, b"\\g<1>\x7e\\g<3>", footer)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("column", ["_healpix_29", "mag"])
@pytest.mark.parametrize("damage", [not_null, of_another_type])
@pytest.mark.parametrize("shape", ["hats, two groups", "hipscat, two groups"])
def test_footers_that_contradict_themselves_are_refused(
    tmp_path: Path, shape: str, damage: Callable[[bytes, str], bytes], column: str
) -> None:
    published = publish(tmp_path, **SHAPES[shape])
    catalog = Catalog.open(published.storage.uri())
    first = catalog.read(["_healpix_29", "_row"]).slice(0, 1).to_pylist()[0]
    for path in Path(published.storage.root).rglob("Norder=*/**/*.parquet"):
        data = path.read_bytes()
        start = -8 - int.from_bytes(data[-8:-4], "little")
        path.write_bytes(data[:start] + damage(data[start:-8], column) + data[-8:])
    program = [sys.executable, "-c", _READ, published.storage.root, column, *map(str, first.values())]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert told.pop("verified") == "named"
    assert len(told) == 8
    assert told == {what: "given" if column == "mag" and what in BY_PLACE else "refused" for what in told}
