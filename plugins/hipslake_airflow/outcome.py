"""From what a step says to what Airflow does: fail at once on what cannot pass, retry the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from hipslake.steps.report import Failure, Report


def failure_to_raise(failure: Failure) -> AirflowException:
    """Return the exception for a failed step.

    `AirflowFailException` ends the task whatever retries it has left; any other exception is retried.
    """
    message = f"{failure.kind}: {failure.message}"
    return AirflowException(message) if failure.retryable else AirflowFailException(message)


def report_of(step: Callable[[], Report]) -> Report:
    """Run a step and return its report; errors that cannot pass end the task at once."""
    from hipslake.errors import HipslakeError
    from hipslake.specs.base import first_mistake
    from pydantic import ValidationError

    try:
        return step()
    except ValidationError as error:  # of a request: a param that the form lets pass, and the step does not
        raise AirflowFailException(f"SpecError: {first_mistake(error, otherwise=error.title)}") from None
    except HipslakeError as error:
        if error.retryable:
            raise
        raise AirflowFailException(f"{type(error).__name__}: {error}") from error
