"""Reads catalogs by the LSDB of this environment: `lsdb_reader.py FOLDER EXPECTED`.

For each catalog of FOLDER/made.json that LSDB reads, EXPECTED then holds `<name>.parquet`: its rows as LSDB
gives them, leaf after leaf, with the leaf's pixel as `leaf_order` and `leaf_pixel`. Of an index it holds what
hats' `loc_partitions` says: each value with the pixels of its leaves. `read.json` says what was read, or why
it was not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lsdb
import pyarrow as pa
import pyarrow.parquet as pq

WRITING = {"compression": "none", "use_dictionary": False, "write_statistics": False}


def main(folder: Path, expected: Path) -> None:
    """Read what was made."""
    read = {}
    for name, what in json.loads((folder / "made.json").read_text()).items():
        try:
            table = _index(folder / name) if what["kind"] == "index" else _rows(folder / name)
        except Exception as error:
            read[name] = {"unread": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
            continue
        (expected / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, expected / f"{name}.parquet", **WRITING)
        read[name] = {"rows": table.num_rows}
    (expected / "read.json").write_text(json.dumps(read, indent=1))


def _rows(path: Path) -> pa.Table:
    parts = []
    opened = _open(path)
    for pixel in opened.get_ordered_healpix_pixels():
        frame = opened.get_partition(pixel.order, pixel.pixel).compute()
        part = frame.to_pandas() if hasattr(frame, "to_pandas") else frame
        table = pa.Table.from_pandas(part, preserve_index=part.index.name is not None)
        table = table.replace_schema_metadata(None)
        for name, value in (("leaf_order", pixel.order), ("leaf_pixel", pixel.pixel)):
            table = table.append_column(name, pa.array([value] * table.num_rows, pa.int64()))
        parts.append(table)
    return pa.concat_tables(parts, promote_options="permissive")


def _open(path: Path) -> lsdb.catalog.dataset.healpix_dataset.HealpixDataset:
    if not hasattr(lsdb, "read_hats"):
        return lsdb.read_hipscat(str(path))
    return lsdb.read_hats(path, columns="all")


def _index(path: Path) -> pa.Table:
    if not hasattr(lsdb, "read_hats"):
        from hipscat.catalog.index.index_catalog import IndexCatalog

        index = IndexCatalog.read_from_hipscat(str(path))
    else:
        import hats

        index = hats.read_hats(path)
    column = index.catalog_info.indexing_column
    values = pq.read_table(path / "dataset" / "index" if (path / "dataset").exists() else path / "index")
    rows = []
    for value in sorted(set(values[column].to_pylist())):
        rows += [(value, pixel.order, pixel.pixel) for pixel in sorted(index.loc_partitions([value]))]
    ids, orders, pixels = zip(*rows, strict=True)
    return pa.table({column: ids, "leaf_order": orders, "leaf_pixel": pixels})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
