"""Start and stop `airflow standalone` in the background: `standalone.py up | down`.

Runs in the environment of environment.sh. The process is remembered in `$AIRFLOW_HOME/standalone.json`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil

AIRFLOW_HOME = Path(os.environ["AIRFLOW_HOME"])
PID_FILE = AIRFLOW_HOME / "standalone.json"
LOG_FILE = AIRFLOW_HOME / "standalone.log"
PASSWORD_FILE = AIRFLOW_HOME / "simple_auth_manager_passwords.json.generated"
LAUNCHER = "hipslake_airflow.without_log_servers"
CHECKS = Path(__file__).with_name("checks.sh")
READY_WITHIN = float(os.environ.get("HIPSLAKE_UP_SECONDS", "300"))
STOPPED_WITHIN = float(os.environ.get("HIPSLAKE_DOWN_SECONDS", "30"))
COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")


def say(message: str) -> None:
    """Print one line for the user, at once."""
    print(f"hipslake: {message}", flush=True)


def remembered() -> tuple[int, float, str] | None:
    """Process id, start time and URL of the Airflow that `up` started last, whether or not it still runs."""
    try:
        entry = json.loads(PID_FILE.read_text())
        return int(entry["pid"]), float(entry["started"]), str(entry["url"])
    except (OSError, ValueError, KeyError):
        return None


def is_running(pid: int, started: float) -> bool:
    """Whether the process of that id is still the one that started then: ids are used again."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - started) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_healthy(url: str) -> bool:
    """Whether the API answers and every component has a fresh heartbeat."""
    try:
        with urllib.request.urlopen(f"{url}/api/v2/monitor/health", timeout=5) as answer:
            health = json.load(answer)
    except (OSError, ValueError, urllib.error.URLError):
        return False
    return all((health.get(name) or {}).get("status") == "healthy" for name in COMPONENTS)


def print_login(url: str) -> None:
    """Say where the UI is and how to get in."""
    try:
        passwords = json.loads(PASSWORD_FILE.read_text())
        login = ", ".join(f"user {user}, password {password}" for user, password in passwords.items())
    except (OSError, ValueError):
        login = f"see {PASSWORD_FILE}"
    print(f"  UI     {url}\n  login  {login}\n         (kept in {PASSWORD_FILE})\n  log    {LOG_FILE}")
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
    """Start Airflow and wait until it is healthy; one that already runs is left alone."""
    last = remembered()
    if last and is_running(last[0], last[1]):
        say("Airflow is already up" if is_healthy(last[2]) else "Airflow runs but is not healthy yet")
        print_login(last[2])
        return 0
    if subprocess.run([CHECKS, "java", "port", "space"], check=False).returncode:
        return 1
    be_private()
    url = os.environ["AIRFLOW__API__BASE_URL"]
    # A parent that ignores SIGINT (make in the background) would hand that on, and `down` would not stop it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with LOG_FILE.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", LAUNCHER],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    started = psutil.Process(process.pid).create_time()
    PID_FILE.write_text(json.dumps({"pid": process.pid, "started": started, "url": url}))
    say("Airflow is starting; this takes about a minute")
    try:
        return wait_until_healthy(process, url)
    except KeyboardInterrupt:
        say("Airflow goes on starting in the background; `make down` stops it")
        return 130


def wait_until_healthy(process: subprocess.Popen[bytes], url: str) -> int:
    """Wait for every component, `READY_WITHIN` seconds at most; what does not come up is stopped again."""
    deadline = time.monotonic() + READY_WITHIN
    while not is_healthy(url):
        if process.poll() is not None:
            reason = f"Airflow stopped while starting (exit code {process.returncode})"
        elif time.monotonic() > deadline:
            reason = f"Airflow is not healthy after {READY_WITHIN:.0f} s (HIPSLAKE_UP_SECONDS changes that)"
        else:
            time.sleep(1)
            continue
        lines = LOG_FILE.read_text(errors="replace").splitlines()
        print(*lines[-20:], sep="\n", file=sys.stderr)
        stop(process.pid)
        PID_FILE.unlink(missing_ok=True)
        say(f"{reason}; the whole log is {LOG_FILE}")
        return 1
    say("Airflow is up; `make down` stops it")
    print_login(url)
    return 0


def family(leader: int) -> set[psutil.Process]:
    """The standalone process, what descends from it, and what was orphaned in its session.

    Zombies are left out: `airflow standalone` does not collect its components, so they stay until it ends.
    """
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        try:
            if process.pid == leader or os.getsid(process.pid) == leader:
                found |= {process, *process.children(recursive=True)}
        except (psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            continue
    return {process for process in found if is_alive(process)}


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs, and is no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def stop(leader: int) -> int:
    """Stop the family: SIGINT to its leader, then SIGTERM and SIGKILL to what is left.

    Returns how many processes had to be ended by force: the scheduler waits for its running tasks, and
    those may take hours.
    """
    known = family(leader)
    signal_all({process for process in known if process.pid == leader}, signal.SIGINT)
    known = wait_for_end(leader, known, STOPPED_WITHIN)
    forced = len(known)
    for sign in (signal.SIGTERM, signal.SIGKILL):
        signal_all(known, sign)
        known = wait_for_end(leader, known, 10.0)
    return forced


def signal_all(processes: set[psutil.Process], sign: signal.Signals) -> None:
    """Send a signal to those that still run."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(sign)


def wait_for_end(leader: int, known: set[psutil.Process], seconds: float) -> set[psutil.Process]:
    """Wait until the family has ended, and return what has not; a component may start children meanwhile."""
    deadline = time.monotonic() + seconds
    while True:
        known = {process for process in known if is_alive(process)} | family(leader)
        if not known or time.monotonic() > deadline:
            return known
        time.sleep(0.2)


def down() -> int:
    """Stop Airflow and everything that it started; nothing to stop is fine."""
    last = remembered()
    if last is None:
        say("Airflow is not running")
        return 0
    pid, started, _ = last
    # A session outlives its leader and keeps its id from being used again, so orphans are found by it.
    if not is_running(pid, started) and (psutil.pid_exists(pid) or not family(pid)):
        PID_FILE.unlink(missing_ok=True)
        say("Airflow is not running")
        return 0
    say(f"stopping Airflow; running tasks have {STOPPED_WITHIN:.0f} s to end (HIPSLAKE_DOWN_SECONDS)")
    forced = stop(pid)
    PID_FILE.unlink(missing_ok=True)
    say("Airflow is stopped" + (f"; {forced} processes of tasks still running were ended" if forced else ""))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ("up", "down"):
        sys.exit("usage: standalone.py up | down")
    sys.exit(up() if sys.argv[1] == "up" else down())
