"""What the runs of the trust suite came to, for docs/reliability.md.

`python -m tests.trust.records docs/reliability.md` writes the newest result of each into the page.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.airflow_home import PROJECT

BEGIN, END = "<!-- make test-system: begin -->", "<!-- make test-system: end -->"
_COLUMNS = ("runs", "tasks", "attempts", "faults", "seconds")


def place() -> Path:
    """The file that results are kept in, a line of JSON each."""
    return Path(os.environ.get("HIPSLAKE_TRUST_RESULTS") or PROJECT / ".data" / "trust.jsonl")


def note(trouble: str, **counts: Any) -> None:
    """Keep a result; only what has passed its checks has one."""
    place().parent.mkdir(parents=True, exist_ok=True)
    with place().open("a") as file:
        file.write(json.dumps({"trouble": trouble, **counts}) + "\n")


def table() -> str:
    """Return the newest result of each trouble as a Markdown table."""
    newest = {}
    for line in place().read_text().splitlines() if place().exists() else []:
        entry = json.loads(line)
        newest[entry["trouble"]] = entry
    if not newest:
        return "No result is noted here yet: `make test-system` notes them."
    rows = [
        f"| {entry['trouble']} | " + " | ".join(str(entry.get(name, 0)) for name in _COLUMNS) + " |"
        for entry in newest.values()
    ]
    return "\n".join([f"| trouble | {' | '.join(_COLUMNS)} |", f"|---|{'---:|' * len(_COLUMNS)}", *rows])


def main() -> None:
    """Write the table into the page that the command line names."""
    page = Path(sys.argv[1])
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main()
