"""`hipslake sink`: rows of files or of a catalog go into a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hipslake.cli.ingest_command import add_interval, add_run_arguments, interval_of

if TYPE_CHECKING:
    from hipslake.api.table_runs import SinkRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "spec", metavar="SPEC", help="YAML file of a table's spec, or its name in the deployment"
    )
    add_interval(parser, "of a spec by intervals")
    parser.add_argument(
        "--allow-empty",
        action="store_true",
        help="the interval may have no files: of mode overwrite-interval, its rows go",
    )
    parser.add_argument(
        "--discard-branch", action="store_true", help="drop what audits have left on the branch before"
    )
    add_run_arguments(parser, "sink also what the table has already")


def run(options: argparse.Namespace) -> int:
    """Sink, and say what came into the table."""
    from hipslake.api.table_runs import sink_by_spec
    from hipslake.cli.main import FAILED, NOTHING_TO_DO, OK
    from hipslake.cli.places import spec_path
    from hipslake.cli.printing import print_json
    from hipslake.cli.progress_bar import shown_progress

    with shown_progress() as told:
        outcome = sink_by_spec(
            spec_path(options.spec, "tables"),
            warehouse=options.warehouse,
            interval=interval_of(options.interval),
            force=options.force,
            allow_empty=options.allow_empty,
            discard_branch=options.discard_branch,
            spark=options.spark,
            told=told,
        )
    if options.json:
        print_json(_plain(outcome))
    else:
        _print(outcome)
    if outcome.sink is not None and outcome.sink.refused:
        return FAILED
    return NOTHING_TO_DO if outcome.nothing_to_do and options.exit_code else OK


def _plain(outcome: SinkRun) -> dict[str, object]:
    """An outcome as JSON tells it."""
    shown = outcome.sink if outcome.audit is None else outcome.audit
    sink = outcome.sink
    return {
        "table": outcome.table,
        "uri": shown.location if shown is not None else "",
        "snapshot_id": None if shown is None else shown.snapshot_id,
        "rows": 0 if sink is None else sink.rows_in_table,
        "files": 0 if sink is None else sink.files,
        "bytes": 0 if sink is None else sink.bytes,
        "commits": 0 if sink is None else sink.commits,
        "refused": [] if sink is None else [each.key for each in sink.refused],
        "rewritten_files": 0 if outcome.clustering is None else outcome.clustering.removed.files,
        "nothing_to_do": outcome.nothing_to_do,
        "run": outcome.run_uri,
    }


def _print(outcome: SinkRun) -> None:
    """Tell an outcome in words."""
    from hipslake.cli.printing import counted

    sink = outcome.sink
    told = outcome.nothing_to_do
    if not told and sink is not None:
        told = f"{counted(sink.rows_in_table, 'row')}, {counted(sink.files, 'file')} added"
    print(f"{outcome.table}: {told or (outcome.audit.text if outcome.audit is not None else '')}")
    if sink is not None and sink.refused:
        print(sink.text)
    if outcome.audit is not None and not outcome.nothing_to_do:
        print(f"branch {outcome.audit.branch}: published as snapshot {outcome.audit.snapshot_id}")
    if outcome.clustering is not None and outcome.clustering.removed.files:
        print(f"clustering: {counted(outcome.clustering.removed.files, 'file')} rewritten")
    shown = outcome.audit or sink
    if shown is not None and shown.location:
        print(shown.location)
