"""From the failure of a step to what Airflow does about it: fail at once, or retry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from hipslake.steps.report import Failure


def failure_to_raise(failure: Failure) -> AirflowException:
    """Return the exception for a failed step.

    `AirflowFailException` ends the task whatever retries it has left; any other exception is retried.
    """
    message = f"{failure.kind}: {failure.message}"
    return AirflowException(message) if failure.retryable else AirflowFailException(message)
