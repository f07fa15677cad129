"""What the runs of the trust suite and of the soak came to, for docs/reliability.md.

`python -m tests.trust.records docs/reliability.md` writes the newest result of each into the page: what is
noted under the name of a command goes between the two comments that name it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.airflow_home import PROJECT

TROUBLES = "make test-system"
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


def keep_section(command: str, text: str) -> None:
    """Keep what a command came to, as Markdown."""
    folder = place().parent / "reliability"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{command}.md").write_text(text)


def sections() -> dict[str, str]:
    """Everything that is noted, by the command that notes it."""
    kept = {path.stem: path.read_text() for path in (place().parent / "reliability").glob("*.md")}
    return {TROUBLES: table(), **kept} if place().exists() else kept


def written_into(page: str, command: str, text: str) -> str:
    """A page with the section of a command replaced; `ValueError` if it has none."""
    begin, end = (f"<!-- {command}: {which} -->" for which in ("begin", "end"))
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no section between {begin} and {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def main() -> None:
    """Write what is noted into the page that the command line names."""
    page = Path(sys.argv[1])
    text = page.read_text()
    for command, section in sections().items():
        text = written_into(text, command, section)
    page.write_text(text)


if __name__ == "__main__":
    main()
