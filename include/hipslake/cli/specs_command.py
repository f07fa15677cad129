"""`hipslake specs check`: the spec files of a deployment are read, and held against each other."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", choices=("check",), help="read all of them, and say what is wrong")
    parser.add_argument(
        "folders",
        nargs="*",
        metavar="FOLDER",
        help="folders with catalogs/, joins/, tables/, cubes/ in them; by default those of $HIPSLAKE_SPECS",
    )


def run(options: argparse.Namespace) -> int:
    """Say what is wrong with specs; exit with 1 if anything is."""
    from pathlib import Path

    from hipslake.cli.main import FAILED, OK
    from hipslake.cli.places import specs_folders
    from hipslake.cli.printing import print_json
    from hipslake.errors import SpecError
    from hipslake.specs.spec_folder import CATALOGS, CUBES, JOINS, TABLES, SpecFolder, find_specs

    roots = [Path(folder).expanduser().absolute() for folder in options.folders] or specs_folders()
    for root in roots:
        if not root.is_dir():
            raise SpecError(f"{root} is no folder; name one that has {CATALOGS}/, {JOINS}/ and so on in it")
    names = (CATALOGS, JOINS, TABLES, CUBES)
    files = [path for root in roots for name in names for path in find_specs(root / name)]
    problems = SpecFolder(*roots).problems()
    if options.json:
        wrong = [{"file": str(path), "problem": text} for path, text in problems.items()]
        print_json({"folders": list(map(str, roots)), "files": len(files), "problems": wrong})
    else:
        for text in problems.values():
            print(text)
        print(f"{len(files)} spec files, {len(problems) or 'none'} of them wrong")
    return FAILED if problems else OK
