"""The pairs that LSDB finds, as JSON; for its interpreter: `peers_match.py LEFT RIGHT RADIUS:NEIGHBOURS`."""

from __future__ import annotations

import json
import sys

import lsdb


def main(left: str, right: str, radius: float, neighbours: int) -> list[list[float]]:
    here = lsdb.open_catalog(left, columns=["source_id", "ra", "dec"])
    there = lsdb.open_catalog(right, columns=["HIP", "ra_icrs", "dec_icrs"])
    matched = here.crossmatch(
        there, radius_arcsec=radius, n_neighbors=neighbours, require_right_margin=True, suffixes=("", "_hip")
    )
    frame = matched.compute().reset_index()
    columns = [frame[name].tolist() for name in ("source_id", "HIP_hip", "_dist_arcsec")]
    return list(map(list, zip(*columns, strict=True)))


if __name__ == "__main__":
    left, right, *asked = sys.argv[1:]
    found = {}
    for each in asked:
        radius, _, neighbours = each.partition(":")
        found[each] = main(left, right, float(radius), int(neighbours))
    print(json.dumps(found))
