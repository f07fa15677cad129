"""The pairs that LSDB finds in trees of others, as JSON; for its interpreter: `LEFT RIGHT MARGIN RADIUS`."""

from __future__ import annotations

import json
import sys

import lsdb


def main(left: str, right: str, margin: str, radius: float) -> None:
    """Print the pairs: numbers of both sides, and arcseconds."""
    here = lsdb.open_catalog(left, columns=["HIP", "RAICRS", "DEICRS"])
    there = lsdb.open_catalog(right, margin_cache=margin, columns=["source_id", "ra", "dec"])
    matched = here.crossmatch(
        there, radius_arcsec=radius, n_neighbors=1, require_right_margin=True, suffixes=("", "_gaia")
    )
    frame = matched.compute().reset_index()
    columns = [frame[name].tolist() for name in ("HIP", "source_id_gaia", "_dist_arcsec")]
    print(json.dumps(list(map(list, zip(*columns, strict=True)))))


if __name__ == "__main__":
    main(*sys.argv[1:4], float(sys.argv[4]))
