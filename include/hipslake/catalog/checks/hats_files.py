"""Whether the HATS files of a version say what its metadata says: the peers' validation does not look.

Checked where they lie: before the publish step there are none, and a view may be built after its version.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from hipslake.catalog.checks.findings import Problem, ProblemKind
from hipslake.catalog.layouts import HATS
from hipslake.catalog.metadata import CatalogMetadata, GroupMetadata, Margin
from hipslake.specs.catalog import Layout
from hipslake.sphere.pixels import Pixel
from hipslake.storage import Storage

_MEND = "build the HATS view again"


def hats_problems(
    storage: Storage, metadata: CatalogMetadata, group: GroupMetadata | Margin, partitions: pa.Table
) -> Iterator[Problem]:
    """Whether row count, pixels and footers in HATS files are those of the partitions.

    Parameters
    ----------
    storage : Storage
        At the catalog's root.
    metadata : CatalogMetadata
    group : GroupMetadata or Margin
    partitions : pyarrow.Table
        `PARTITION_SCHEMA`.
    """
    if metadata.layout is not Layout.HATS:
        return
    checks = {
        "hats.properties": lambda data: _properties(data, group),
        "properties": lambda data: _properties(data, group),
        "partition_info.csv": lambda data: _pixels(data, partitions),
        "dataset/_metadata": lambda data: _footers(data, partitions),
    }
    for name, check in checks.items():
        path = HATS.view_file(metadata.write_id, group.name, name)
        try:
            data = storage.read(path)
        except FileNotFoundError:
            continue
        try:
            wrong = check(data)
        except (pa.ArrowException, OSError, ValueError) as error:
            yield Problem.of(ProblemKind.UNREADABLE, path, str(error).strip().splitlines()[0], _MEND)
            continue
        if wrong:
            yield Problem.of(ProblemKind.METADATA, path, wrong, _MEND)


def _properties(data: bytes, group: GroupMetadata | Margin) -> str:
    lines = [line for line in data.decode().splitlines() if "=" in line and not line.startswith("#")]
    values = {key.strip(): value.strip() for key, value in (line.split("=", 1) for line in lines)}
    said = values.get("hats_nrows")
    return "" if said == str(group.rows) else f"hats_nrows is {said}, but there are {group.rows} rows"


def _pixels(data: bytes, partitions: pa.Table) -> str:
    table = pa.csv.read_csv(pa.BufferReader(data))
    listed = set(zip(table["Norder"].to_pylist(), table["Npix"].to_pylist(), strict=True))
    leaves = set(zip(partitions["order"].to_pylist(), partitions["npix"].to_pylist(), strict=True))
    if listed == leaves and table.num_rows == len(leaves):
        return ""
    first = Pixel(*min(listed ^ leaves)) if listed != leaves else "a pixel that stands twice"
    return (
        f"lists {table.num_rows} pixels that are not the {len(leaves)} leaves; the first to differ: {first}"
    )


def _footers(data: bytes, partitions: pa.Table) -> str:
    footer = pq.read_metadata(pa.BufferReader(data))
    found: dict[str, int] = {}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        path = group.column(0).file_path
        found[path] = found.get(path, 0) + group.num_rows
    paths = map(HATS.path_in_dataset, partitions["path"].to_pylist())
    leaves = dict(zip(paths, partitions["rows"].to_pylist(), strict=True))
    if found == leaves:
        return ""
    path = min(set(found.items()) ^ set(leaves.items()))[0]
    return f"counts {found.get(path, 0)} rows in {path}, where metadata.json says {leaves.get(path, 0)}"
