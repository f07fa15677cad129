"""Two hundred nights in one process with one Spark session: `python -m tests.soak`.

Prints what was measured as it comes, and notes the verdict for docs/reliability.md; fails if anything grew.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

from hipslake.engine.own_process import tune_process

from tests.soak.page import note_soak
from tests.soak.verdict import judged


def main() -> int:
    """Run the nights; the exit code says whether anything grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--nights", type=int, default=200)
    parser.add_argument("--objects", type=int, default=20_000, help="on the sky, all seen in the first night")
    parser.add_argument("--rows", type=int, default=20, help="of each other night: few, as data is to stay")
    parser.add_argument("--keep", type=Path, help="a folder to leave the measures in, a line of JSON a night")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    tune_process()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hipslake-soak-", dir=given.keep) as place:
        from tests.soak.running import run_nights

        log = (given.keep or Path(place)) / "soak.jsonl"
        nights = run_nights(Path(place), given.nights, objects=given.objects, rows=given.rows, log=log)
    verdicts = judged(nights)
    for each in verdicts:
        told = "" if each.bound is None else f"at most {each.bound:.4g}"
        mark = "holds" if each.holds else "GREW"
        print(f"{each.name:40} {each.early:12.4g} {each.late:12.4g} {each.slope:12.4g} {told:18} {mark}")
    note_soak(len(nights), verdicts, seconds=time.monotonic() - start)
    grew = [each.name for each in verdicts if not each.holds]
    print(json.dumps({"nights": len(nights), "seconds": round(time.monotonic() - start), "grew": grew}))
    return 1 if grew else 0


if __name__ == "__main__":
    sys.exit(main())
