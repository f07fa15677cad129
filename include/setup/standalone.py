"""Start `airflow standalone` in the background, and a Spark session beside it; stop both, and the database.

`standalone.py up | down`.

Runs in the environment of environment.sh. The process is remembered in `$AIRFLOW_HOME/standalone.json`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import database
import session
from hipslake_cluster.health import problem
from hipslake_cluster.processes import Background
from ready import dags_not_read, tasks_not_served

AIRFLOW_HOME = Path(os.environ["AIRFLOW_HOME"])
AIRFLOW = Background(
    AIRFLOW_HOME, f"{AIRFLOW_HOME}#standalone", record="standalone.json", log="standalone.log"
)
PASSWORD_FILE = AIRFLOW_HOME / "simple_auth_manager_passwords.json.generated"
LAUNCHER = "hipslake_airflow.without_log_servers"
CHECKS = Path(__file__).with_name("checks.sh")
READY_WITHIN = float(os.environ.get("HIPSLAKE_UP_SECONDS", "300"))
STOPPED_WITHIN = float(os.environ.get("HIPSLAKE_DOWN_SECONDS", "30"))
COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")


def say(message: str) -> None:
    """Print one line for the user, at once."""
    print(f"hipslake: {message}", flush=True)


def not_ready(url: str, since: datetime | None = None) -> str:
    """What is not so yet, or "".

    Every component has a fresh heartbeat, the API of tasks answers at once, and the DAGs were read.

    Parameters
    ----------
    url : str
    since : datetime, optional
        When Airflow was started: DAGs that were read before do not count.
    """
    return (
        problem(f"{url}/api/v2/monitor/health", *COMPONENTS, seconds=5)
        or tasks_not_served(url)
        or dags_not_read(url, PASSWORD_FILE, since)
    )


def print_login(url: str) -> None:
    """Say where the UI is and how to get in."""
    try:
        passwords = json.loads(PASSWORD_FILE.read_text())
        login = ", ".join(f"user {user}, password {password}" for user, password in passwords.items())
    except (OSError, ValueError):
        login = f"see {PASSWORD_FILE}"
    print(f"  UI     {url}\n  login  {login}\n         (kept in {PASSWORD_FILE})\n  log    {AIRFLOW.log}")
    sys.stdout.flush()


def be_private() -> None:
    """Let nobody else read what Airflow keeps, and what its tasks write; of these `HIPSLAKE_UMASK` decides.

    Its database has the connections, its home the generated password: both are closed, also those of before.
    """
    os.umask(int(os.environ.get("HIPSLAKE_UMASK", "077"), 8))
    AIRFLOW_HOME.mkdir(parents=True, exist_ok=True)
    AIRFLOW_HOME.chmod(0o700)
    for path in AIRFLOW_HOME.iterdir():
        if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o700)


def up() -> int:
    """Start Airflow and wait until it is ready for work; one that already runs is left alone."""
    if AIRFLOW.pid is not None:
        url = AIRFLOW.noted("url")
        missing = not_ready(url)
        say(f"Airflow runs but is not ready yet: {missing}" if missing else "Airflow is already up")
        print_login(url)
        return 0
    if subprocess.run([CHECKS, "java", "port", "space"], check=False).returncode:
        return 1
    be_private()
    url = os.environ["AIRFLOW__API__BASE_URL"]
    # A parent that ignores SIGINT (make in the background) would hand that on, and `down` would not stop it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    AIRFLOW.log.unlink(missing_ok=True)
    since = datetime.now(UTC)
    environment = session.up(os.environ)
    process = AIRFLOW.start([sys.executable, "-m", LAUNCHER], environment, Path.cwd(), url=url)
    say("Airflow is starting; this takes about a minute")
    try:
        return wait_until_ready(process, url, since)
    except KeyboardInterrupt:
        say("Airflow goes on starting in the background; `make down` stops it")
        return 130


def wait_until_ready(process: subprocess.Popen[bytes], url: str, since: datetime) -> int:
    """Wait for every component, `READY_WITHIN` seconds at most; what does not come up is stopped again."""
    deadline = time.monotonic() + READY_WITHIN
    while missing := not_ready(url, since):
        if process.poll() is not None:
            reason = f"Airflow stopped while starting (exit code {process.returncode})"
        elif time.monotonic() > deadline:
            reason = f"Airflow is not ready after {READY_WITHIN:.0f} s (HIPSLAKE_UP_SECONDS): {missing}"
        else:
            time.sleep(1)
            continue
        lines = AIRFLOW.log.read_text(errors="replace").splitlines()
        print(*lines[-20:], sep="\n", file=sys.stderr)
        stop()
        say(f"{reason}; the whole log is {AIRFLOW.log}")
        return 1
    say("Airflow is up; `make down` stops it")
    print_login(url)
    return 0


def stop() -> int:
    """Stop all of it: SIGINT to the first process, then SIGTERM and SIGKILL to what is left.

    Returns how many processes had to be ended by force: the scheduler waits for its running tasks, and
    those may take hours.
    """
    forced = AIRFLOW.stop(seconds=STOPPED_WITHIN, sign=signal.SIGINT, term_seconds=10.0)
    session.down()
    return forced


def down() -> int:
    """Stop Airflow and everything that it started, then its database; nothing to stop is fine."""
    if not AIRFLOW.family():
        AIRFLOW.record.unlink(missing_ok=True)
        session.down()
        also = "; PostgreSQL, its database, is stopped" if database.down() else ""
        say(f"Airflow is not running{also}")
        return 0
    say(f"stopping Airflow; running tasks have {STOPPED_WITHIN:.0f} s to end (HIPSLAKE_DOWN_SECONDS)")
    forced = stop()
    database.down()
    say("Airflow is stopped" + (f"; {forced} processes of tasks still running were ended" if forced else ""))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("up", "down"):
        sys.exit("usage: standalone.py up | down")
    sys.exit(up() if sys.argv[1] == "up" else down())
