"""What LSDB finds through the indices of a catalog, as JSON: `find_by_peers.py ROOT COLUMN VALUE...`."""

from __future__ import annotations

import json
import sys
from typing import Any

import hats
import lsdb
from hats.io.validation import is_valid_catalog


def main(root: str, column: str, texts: list[str]) -> dict[str, Any]:
    catalog = lsdb.open_catalog(root)
    collection = hats.read_hats(root)
    index = collection.get_index_for_field(column) if hasattr(collection, "get_index_for_field") else None
    values = [int(text) if text.lstrip("-").isdigit() else text for text in texts]
    found = catalog.id_search(values={column: values})
    rows = found.compute()
    folder = collection.get_index_dir_for_field(column)
    return {
        "valid": is_valid_catalog(root, strict=True),
        "index_valid": is_valid_catalog(folder, strict=False),
        "properties": hats.read_hats(folder).catalog_info.indexing_column,
        "index": str(index),
        "partitions": found.npartitions,
        "rows": sorted(rows["source_id"].to_numpy().tolist()),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3:])))
