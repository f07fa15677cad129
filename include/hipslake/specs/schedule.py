"""When DAGs run, checked when a spec is read and not when the scheduler first meets it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from hipslake.specs.cron import Cron


def check_cron(text: str) -> str:
    """Return a five-field cron expression or preset as it is; `ValueError` names the field that is wrong.

    Examples
    --------
    >>> check_cron("30 2 * * MON-FRI")
    '30 2 * * MON-FRI'
    """
    if not Cron.parse(text).comes():
        raise ValueError(
            f"{text!r} is a schedule that never comes: no month of it has such a day; write another"
        )
    return text


def check_schedule(text: str) -> str:
    """Return `manual`, or a cron expression as it is; `ValueError` says what is wrong.

    Examples
    --------
    >>> check_schedule("manual")
    'manual'
    """
    return text if text == MANUAL else check_cron(text)


MANUAL = "manual"
"""The schedule of what would follow others by itself, and is to run by hand only."""

Following = Annotated[str, AfterValidator(check_schedule)] | None
"""A cron expression, `manual`, or None: after each change of what the outcome is made of."""
