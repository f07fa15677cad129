"""`hipslake compact`: files of a table, or of a folder, are brought together or clustered along a curve."""

from __future__ import annotations

import argparse

from hipslake.cli.ingest_command import add_run_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "spec", metavar="SPEC", help="YAML file of a spec of type compaction, or its name in the deployment"
    )
    parser.add_argument(
        "--partitions",
        metavar="FILTER",
        help="which files, by their partition values, such as \"night >= '2026-11-01'\"; by default as the "
        "spec says",
    )
    parser.add_argument("--full", action="store_true", help="also what is compacted or clustered already")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be rewritten")
    add_run_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Compact, and say what was rewritten."""
    from hipslake.api.table_runs import compact_by_spec
    from hipslake.cli.main import FAILED, NOTHING_TO_DO, OK
    from hipslake.cli.places import spec_path
    from hipslake.cli.printing import counted, print_json
    from hipslake.cli.progress_bar import shown_progress

    with shown_progress() as told:
        report = compact_by_spec(
            spec_path(options.spec, "tables"),
            warehouse=options.warehouse,
            partitions=options.partitions,
            full=options.full,
            dry_run=options.dry_run,
            spark=options.spark,
            told=told,
        )
    if options.json:
        answer = {
            "table": report.table,
            "version": report.version,
            "dry_run": report.dry_run,
            "removed": report.removed.model_dump(mode="json"),
            "added": report.added.model_dump(mode="json"),
            "expected_files": report.expected_files,
            "files_later": report.files_later,
            "groups_refused": report.groups_refused,
        }
        print_json(answer)
    else:
        removed, added = (counted(each.files, "file") for each in (report.removed, report.added))
        print(report.text or f"{report.table}: {removed} became {added}")
    if report.groups_refused and not report.commits:
        return FAILED
    return NOTHING_TO_DO if options.exit_code and not report.dry_run and not report.version else OK
