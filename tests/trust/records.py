"""What long runs came to, for docs/reliability.md: the trust suite, the fuzzing, the soak, and the sequences.

`python -m tests.trust.records docs/reliability.md` writes the newest result of each into the page's tables.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.airflow_home import PROJECT


@dataclass(frozen=True)
class Records:
    """The results of one command: a line of JSON each, and a row of its table for each key."""

    command: str
    file: str  # in .data; the variable HIPSLAKE_TRUST_RESULTS names another folder
    key: str
    columns: tuple[str, ...]

    @property
    def place(self) -> Path:
        """The file that results are kept in."""
        return Path(os.environ.get("HIPSLAKE_TRUST_RESULTS") or PROJECT / ".data") / self.file

    def table(self) -> str | None:
        """Return the newest result of each key as a Markdown table; None where there is none."""
        newest = {}
        for line in self.place.read_text().splitlines() if self.place.exists() else []:
            entry = json.loads(line)
            newest[entry[self.key]] = entry
        if not newest:
            return None
        cells = [[str(entry.get(name, 0)) for name in (self.key, *self.columns)] for entry in newest.values()]
        lines = [(self.key, *self.columns), ("---", *["---:"] * len(self.columns)), *cells]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def written_into(self, page: str) -> str:
        """Return a page with the table between its comments; as it was, if it has none or none is known."""
        table = self.table()
        if table is None:
            return page
        begin, end = f"<!-- {self.command}: begin -->", f"<!-- {self.command}: end -->"
        between = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        return between.sub(lambda _: f"{begin}\n{table}\n{end}", page)


TRUST = Records(
    "make test-system", "trust.jsonl", "trouble", ("runs", "tasks", "attempts", "faults", "seconds")
)
DRIVERS = Records(
    "python -m pytest tests/trust/test_cluster_drivers.py",
    "drivers.jsonl",
    "trouble",
    ("jobs", "drivers", "tries", "seconds"),
)
FUZZ = Records(
    "make fuzz", "fuzz.jsonl", "target", ("inputs", "read", "refused", "faults", "seed", "seconds")
)
SOAK = Records(
    "make soak", "soak.jsonl", "measure", ("second quarter", "last quarter", "per 100 nights", "at most", "")
)
TEN_NIGHTS = Records(
    "python -m pytest tests/soak/test_ten_nights.py", "ten_nights.jsonl", "ten nights", ("at the end",)
)

SEQUENCES = Records(
    "make sequences",
    "sequences.jsonl",
    "catalogs",
    ("sequences", "commits", "refused", "read by LSDB", "failed", "seconds"),
)


def note(records: Records, key: str, **counts: Any) -> None:
    """Keep a result."""
    records.place.parent.mkdir(parents=True, exist_ok=True)
    with records.place.open("a") as file:
        file.write(json.dumps({records.key: key, **counts}) + "\n")


def main() -> None:
    """Write the tables into the page that the command line names."""
    page = Path(sys.argv[1])
    text = page.read_text()
    for records in (TRUST, DRIVERS, FUZZ, SOAK, TEN_NIGHTS, SEQUENCES):
        text = records.written_into(text)
    page.write_text(text)


if __name__ == "__main__":
    main()
