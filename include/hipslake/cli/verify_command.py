"""`hipslake verify`: everything of a catalog is read back and checked."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hipslake.cli.places import CATALOG

if TYPE_CHECKING:
    from hipslake.catalog.checks.findings import VerificationReport


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("catalogs", nargs="+", metavar="CATALOG", help=CATALOG)
    parser.add_argument("--at", type=int, metavar="VERSION", help="this version; by default the newest")
    parser.add_argument("--all", action="store_true", help="every version that can be opened, and the log")
    parser.add_argument("--workers", type=int, metavar="N", help="leaves at once; by default one per core")


def run(options: argparse.Namespace) -> int:
    """Verify catalogs one after the other; exit with 1 if anything is wrong with one."""
    from hipslake.cli.main import FAILED, OK
    from hipslake.cli.places import opened
    from hipslake.cli.printing import print_json
    from hipslake.cli.progress_bar import shown_progress

    if options.workers is not None and options.workers < 1:
        raise argparse.ArgumentError(None, f"--workers {options.workers}: take one at least")
    reports = []
    for name in options.catalogs:
        catalog = opened(options, name, options.at)
        with shown_progress() as told:
            if told:
                told("verify", None)
            report = catalog.verify(all=options.all, workers=options.workers)
        reports.append(report)
        if not options.json:
            _print(report)
    if options.json:
        print_json([{**report.model_dump(mode="json"), "ok": report.ok} for report in reports])
    return OK if all(report.ok for report in reports) else FAILED


def _print(report: VerificationReport) -> None:
    from hipslake.cli.printing import counted, printable

    where = f"{report.catalog}, version {report.version}"
    read = f"{counted(report.files, 'file')}, {counted(report.rows, 'row')} read in {report.seconds:.1f} s"
    wrong = counted(len(report.problems), "problem") if report.problems else "nothing is wrong"
    print(f"{where}: {read}: {wrong}")
    for problem in report.problems:
        print(f"  {printable(str(problem))}")
    for what in report.unchecked:
        print(f"  not checked: {printable(what)}")
