"""What both demos do as commands: lines of progress, and one line on standard error if they fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from hipslake.errors import HipslakeError

from hipslake_demo.scheduler import SchedulerError


class DagRunError(Exception):
    """A DAG run failed, or did not end."""


def say(message: str) -> None:
    """Print one line of progress, at once."""
    print(f"hipslake: {message}", flush=True)


def exit_code(demo: Callable[[], object]) -> int:
    """Run a demo; return the exit code of its process. What it makes nobody else reads: `HIPSLAKE_UMASK`."""
    os.umask(int(os.environ.get("HIPSLAKE_UMASK", "077"), 8))
    try:
        demo()
    except (DagRunError, SchedulerError, HipslakeError) as error:
        print(f"hipslake: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("hipslake: stopped; nothing half done is visible, and the next run cleans up", file=sys.stderr)
        return 130
    return 0
