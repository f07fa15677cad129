"""Our side as a user's program: the commands `hipslake ingest` and `hipslake match`, whole.

They start Spark only if they choose to, by their size and by the memory there is. Verify is apart, as it is
with the steps of a DAG (`benchmarks.hipslake_ingest`, `benchmarks.hipslake_crossmatch`).

    python -m benchmarks.hipslake_program ingest --source .data/bench/20M --output OUT --report report.json
    python -m benchmarks.hipslake_program match --warehouse W --output OUT --report report.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from hipslake.cli.main import main as hipslake

from benchmarks import hipslake_crossmatch, hipslake_ingest
from benchmarks.leaf_encoding import ROW_GROUP_ROWS
from benchmarks.our_steps import SESSION_PHASES
from benchmarks.sizes import parse_count


def ingest(source: Path, output: Path, threshold: int, level: int) -> tuple[Path, Path]:
    """Ingest the files of a folder into a new warehouse; return that, and the folder of the run."""
    spec = output / f"{hipslake_ingest.NAME}.yaml"
    spec.write_text(
        hipslake_ingest.SPEC.format(
            name=hipslake_ingest.NAME,
            source=source.resolve(),
            format="parquet",
            threshold=threshold,
            level=level,
            row_group_rows=ROW_GROUP_ROWS,
        )
    )
    warehouse = output.resolve() / "warehouse"
    _succeed("ingest", f"--spec={spec}", f"--warehouse={warehouse}")
    return warehouse, _last_run(warehouse / "_runs" / f"catalog_ingest__{hipslake_ingest.NAME}")


def match(warehouse: Path, output: Path, radius: float, level: int) -> tuple[Path, Path]:
    """Match the catalogs of a warehouse; return that, and the folder of the run."""
    spec = output / f"{hipslake_crossmatch.NAME}.yaml"
    spec.write_text(
        hipslake_crossmatch.SPEC.format(
            name=hipslake_crossmatch.NAME, radius=radius, level=level, row_group_rows=ROW_GROUP_ROWS
        )
    )
    _succeed("match", str(spec), f"--warehouse={warehouse}", "--force")
    return warehouse, _last_run(warehouse / "_runs" / f"catalog_crossmatch__{hipslake_crossmatch.NAME}")


def report_of(warehouse: Path, run: Path) -> dict[str, Any]:
    """What the steps of a run took, by their reports."""
    seconds: dict[str, dict[str, float]] = {
        path.stem: json.loads(path.read_text())["seconds"]
        for path in sorted((run / "reports").glob("*.json"))
    }
    phases = {
        step: sum(taken for phase, taken in each.items() if phase not in SESSION_PHASES)
        for step, each in seconds.items()
    }
    verify = phases.pop("verify", 0.0)
    told = json.loads((run / "run.json").read_text())
    catalog = warehouse / "catalogs" / told["spec"]["name"]
    return {
        "seconds": sum(phases.values()),
        "phases": phases,
        "verify": verify,
        "reported": seconds,
        "dataset": str(catalog / told["write_id"] / "main" / "dataset"),
    }


def _succeed(*arguments: str) -> None:
    if code := hipslake(arguments):
        raise SystemExit(code)


def _last_run(folder: Path) -> Path:
    return max(folder.glob("program__*"), key=lambda run: run.stat().st_mtime)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    ingesting, matching = commands.add_parser("ingest"), commands.add_parser("match")
    ingesting.add_argument("--source", type=Path, required=True, help="folder of Parquet files")
    ingesting.add_argument(
        "--threshold", type=parse_count, default=1_000_000, help="rows of the largest leaf"
    )
    matching.add_argument("--warehouse", type=Path, required=True, help="with catalogs stars_a and stars_b")
    matching.add_argument("--radius", type=float, default=2.0, help="arcseconds")
    for each in (ingesting, matching):
        each.add_argument("--output", type=Path, required=True, help="folder that does not exist yet")
        each.add_argument("--report", type=Path, required=True)
        each.add_argument("--level", type=int, default=1, help="zstd level")
    options: Any = parser.parse_args(argv)
    options.output.mkdir(parents=True)
    if options.command == "ingest":
        made = ingest(options.source, options.output, options.threshold, options.level)
    else:
        made = match(options.warehouse.resolve(), options.output, options.radius, options.level)
    options.report.write_text(json.dumps(report_of(*made), indent=2))


if __name__ == "__main__":
    main()
