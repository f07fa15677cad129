"""The pairs that LSDB joins through an association, as JSON. `peers_join.py LEFT RIGHT ASSOCIATION`."""

from __future__ import annotations

import json
import sys

import hats
import lsdb


def main(left: str, right: str, through: str) -> dict[str, object]:
    association = lsdb.read_hats(through)
    joined = lsdb.open_catalog(left).join(
        lsdb.open_catalog(right), through=association, suffixes=("_left", "_right")
    )
    frame = joined.compute()
    return {
        "type": type(hats.read_hats(through)).__name__,
        "pairs": list(zip(frame["id_left"].tolist(), frame["id_right"].tolist(), strict=True)),
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4])))
