"""The frozen join of a run, whatever its kind."""

from __future__ import annotations

from hipslake.steps.join.crossmatch_request import FrozenCrossmatch
from hipslake.steps.join.equijoin_request import FrozenEquijoin
from hipslake.steps.join.request import FROZEN
from hipslake.steps.run import RunFolder, parse
from hipslake.storage.plain_json import plain_json


def frozen_join(folder: RunFolder) -> FrozenCrossmatch | FrozenEquijoin:
    """Return what a run has frozen of its join; `StepError` if its first step did not run."""
    if not folder.storage.exists(FROZEN):
        return folder.read(FROZEN, FrozenCrossmatch)  # says so
    data = folder.document(FROZEN)
    where = folder.uri_of(FROZEN)
    try:
        is_equijoin = plain_json(data)["spec"]["type"] == "equijoin"
    except (ValueError, TypeError, KeyError, IndexError):
        is_equijoin = False  # whoever parses it says what is wrong
    if is_equijoin:
        return parse(FrozenEquijoin, data, where=where)
    return parse(FrozenCrossmatch, data, where=where)
