"""The frozen join of a run, whatever its kind."""

from __future__ import annotations

import json

from hipslake.steps.crossmatch import FrozenCrossmatch
from hipslake.steps.equijoin import FrozenEquijoin
from hipslake.steps.joining import FROZEN
from hipslake.steps.run import RunFolder, parse


def frozen_join(folder: RunFolder) -> FrozenCrossmatch | FrozenEquijoin:
    """Return what a run has frozen of its join; `StepError` if its first step did not run."""
    if not folder.storage.exists(FROZEN):
        return folder.read(FROZEN, FrozenCrossmatch)  # says so
    data = folder.storage.read(FROZEN)
    where = folder.uri_of(FROZEN)
    if json.loads(data)["spec"]["type"] == "equijoin":
        return parse(FrozenEquijoin, data, where=where)
    return parse(FrozenCrossmatch, data, where=where)
