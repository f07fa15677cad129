"""`python -m tests.fuzz`: read inputs that nobody would write, and see that only errors of ours come out.

The same seed gives the same inputs. What does something else is kept in `.data/fuzz`, the results in
`.data/fuzz.jsonl`; `python -m tests.trust.records docs/reliability.md` writes them into the page.
"""

from __future__ import annotations

import argparse
import os
import sys

from tests.airflow_home import PROJECT
from tests.fuzz.running import fuzz, keep
from tests.fuzz.targets import TARGETS, shares
from tests.trust.records import FUZZ, note


def main() -> int:
    """Fuzz all targets, or one; 1 if anything but our errors came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--inputs", type=int, default=100_000, help="in all, over the targets by their shares"
    )
    parser.add_argument("--target", choices=TARGETS, help="only this one; it gets all the inputs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="with --target: only the input of this number")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    names = [given.target] if given.target else list(TARGETS)
    wanted = {name: range(count) for name, count in shares(names, given.inputs).items()}
    if given.only is not None:
        wanted = {given.target: range(given.only, given.only + 1)}
    outcomes = fuzz(wanted, given.seed, given.workers)
    faults = [fault for outcome in outcomes.values() for fault in outcome.faults]
    for fault in faults:
        print(f"\n{fault}\nkept as {keep(fault, PROJECT / '.data' / 'fuzz')}")
    for name, outcome in outcomes.items():
        counts = {kind: outcome.verdicts[kind] for kind in ("read", "refused")}
        counts = {"inputs": outcome.verdicts.total(), **counts, "faults": len(outcome.faults)}
        print(f"{name}: {counts}, {outcome.seconds:.0f} s")
        if given.only is None:
            note(FUZZ, name, **counts, seed=given.seed, seconds=round(outcome.seconds))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
