"""What LSDB reads at each catalog root that a line of its input names, as JSON. For the peers' Python."""

from __future__ import annotations

import json
import sys

import lsdb
from hats.io.validation import is_valid_catalog

for line in sys.stdin:
    root = line.strip()
    catalog = lsdb.open_catalog(root)
    frame = catalog.compute()
    told = {
        "rows": len(frame),
        "said": int(catalog.hc_structure.catalog_info.total_rows),
        "ids": sorted(frame["id"].tolist()),
        "valid": bool(is_valid_catalog(root, strict=False)),
        "strictly": bool(is_valid_catalog(root, strict=True, verbose=False)),
    }
    print(json.dumps(told), flush=True)
