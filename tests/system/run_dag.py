"""`airflow dags test` without the pauses of its loop: `-m tests.system.run_dag DAG`."""

from __future__ import annotations

import sys
import time

from airflow.__main__ import main

from tests.dags.pauses import without_pauses

if __name__ == "__main__":
    time.sleep = without_pauses(time.sleep)
    sys.argv = ["airflow", "dags", "test", *sys.argv[1:]]
    main()
