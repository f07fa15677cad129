"""Retries: for what can pass, such as a lost worker or a store that does not answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

# Wrong input and wrong specs end a task by AirflowFailException, so they never come here.
_BUGS: list[type[BaseException] | str] = [
    "builtins.TypeError",
    "builtins.AttributeError",
    "builtins.NameError",
    "builtins.ImportError",
]

RETRIES: dict[str, Any] = {
    "retries": 2,
    "retry_delay": timedelta(seconds=30),
    "retry_policy": ExceptionRetryPolicy(
        rules=[RetryRule(exception=_BUGS, action=RetryAction.FAIL, reason="a bug does not mend itself")]
    ),
}
