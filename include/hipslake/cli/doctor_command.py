"""`hipslake doctor`: what is wrong with this installation, its settings, its warehouse and Spark."""

from __future__ import annotations

import argparse

_SIGNS = {"ok": "ok   ", "note": "note ", "wrong": "WRONG"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--spark", action="store_true", help="start Spark too, and run a task in it")


def run(options: argparse.Namespace) -> int:
    """Look at all of it; exit with 1 if anything is wrong."""
    from hipslake.cli import installation_checks as look
    from hipslake.cli.main import FAILED, OK
    from hipslake.cli.printing import print_json, printable

    checks: list[look.Check] = [
        look.python_and_packages,
        look.settings,
        lambda: look.warehouse(options.warehouse),
        look.specs,
        look.spark,
        *([look.trial_session] if options.spark else []),
        look.airflow,
    ]
    found = []
    for check in checks:
        for finding in check():
            found.append(finding)
            if not options.json:
                for line in finding.message.splitlines() or [""]:
                    print(f"{_SIGNS[finding.state]} {finding.check}: {printable(line)}")
                if finding.mend and finding.state != "ok":
                    print(f"      mend: {printable(finding.mend)}")
    wrong = sum(finding.state == "wrong" for finding in found)
    if options.json:
        print_json({"wrong": wrong, "findings": [finding._asdict() for finding in found]})
    else:
        print(f"{wrong} things are wrong" if wrong else "nothing is wrong")
    return FAILED if wrong else OK
