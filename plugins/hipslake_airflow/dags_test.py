"""The last lines of `airflow dags test`: what came of the run, below all that its tasks have logged."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

if TYPE_CHECKING:
    from airflow.sdk import Context
    from hipslake.steps.committed import CommittedVersion
    from hipslake.steps.report import Report


@dataclass
class RunOutcome:
    """What the tasks of a run have said.

    Attributes
    ----------
    run : str
        The ids of its DAG and of itself.
    folder : str
        Where its reports lie.
    published : dict of str to CommittedVersion
        By task; the last one is what stands.
    skipped, failed : dict of str to str
        Why, by task.
    """

    run: str = ""
    folder: str = ""
    published: dict[str, CommittedVersion] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Return it for people, some lines of a label and what it is."""
        facts = [(f"failed in {task}", why) for task, why in self.failed.items()]
        for committed in {each.uri: each for each in self.published.values()}.values():
            facts += _facts(committed)
        if not self.published:
            facts += [("published", "nothing")]
            facts += [(f"skipped {task}", why) for task, why in self.skipped.items()]
        if self.folder:
            facts.append(("reports", f"{self.folder}/reports"))
        width = max(len(label) for label, _ in facts)
        return [
            f"hipslake: {self.run} {'failed' if self.failed else 'ended well'}",
            *(f"  {label.ljust(width)}  {what}" for label, what in facts),
        ]


_OUTCOME = RunOutcome()


def is_dags_test(arguments: Sequence[str]) -> bool:
    """Whether a process was started as `airflow dags test`, where all tasks of a run are this process's.

    Examples
    --------
    >>> is_dags_test(["/x/.venv/bin/airflow", "dags", "test", "catalog_ingest__gaia_dr3"])
    True
    >>> is_dags_test(["/x/site-packages/airflow/__main__.py", "dags", "test", "catalog_export"])
    True
    >>> is_dags_test(["airflow", "scheduler"])
    False
    """
    is_airflow = "airflow" in Path(arguments[0]).parts[-2:]  # or its __main__.py
    return is_airflow and list(arguments[1:3]) == ["dags", "test"]


@contextmanager
def told_at_the_end(task_id: str, context: Context) -> Iterator[None]:
    """Keep why a task of `airflow dags test` fails or is skipped; print the outcome when the process ends."""
    if not is_dags_test(sys.argv):
        yield
        return
    if not _OUTCOME.run:
        run: Any = context["dag_run"]
        _OUTCOME.run = f"{run.dag_id}, run {run.run_id},"
        atexit.register(lambda: print("", *_OUTCOME.lines(), sep="\n", flush=True))
    for kind in (_OUTCOME.skipped, _OUTCOME.failed):
        kind.pop(task_id, None)  # of the try before
    try:
        yield
    except AirflowSkipException as reason:
        _OUTCOME.skipped[task_id] = str(reason)
        raise
    except Exception as error:
        _OUTCOME.failed[task_id] = str(error) or type(error).__name__
        raise


def keep_outcome(task_id: str, folder: str, report: Report) -> None:
    """Keep what a task has committed, to be told at the end; `folder` is that of the run, as far as known."""
    from hipslake.errors import HipslakeError

    _OUTCOME.folder = folder or _OUTCOME.folder
    try:
        committed = report.committed(folder)
    except HipslakeError as error:  # what it did is done, whether it can be told or not
        _OUTCOME.failed[f"telling of {task_id}"] = str(error)
        return
    if committed is not None:
        _OUTCOME.published[task_id] = committed


def _facts(committed: CommittedVersion) -> list[tuple[str, str]]:
    size = f"{committed.bytes / (1 << 20):,.1f} MiB in {committed.files:,} files"
    partitions = [] if committed.partitions is None else [("partitions", f"{committed.partitions:,}")]
    return [
        ("published", f"{committed.kind} {committed.name}, version {committed.version}"),
        *([] if committed.rows is None else [("rows", f"{committed.rows:,}")]),
        *partitions,
        ("size", size),
        ("uri", committed.uri),
    ]
