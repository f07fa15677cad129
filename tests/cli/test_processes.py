"""The command line as a process: how it starts, is interrupted, and writes into pipes and terminals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hipslake
import pytest

from tests.api.without_platforms import REFUSED
from tests.cli.conftest import POSITION, night

ROOT = Path(__file__).parents[2]
LIGHT = {"hipslake", "__main__"}
REFUSE = f"""\
import sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {REFUSED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse())
from hipslake.cli.main import main
"""


def environment(**more: str) -> Mapping[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT / "include"), "PYTHONWARNINGS": "ignore"} | more


def run(*arguments: object, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hipslake", *map(str, arguments)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, **more)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["read", "--help"], ["ingest", "--help"]])
def test_help_imports_nothing_but_the_standard_library(arguments: list[str]) -> None:
    program = f"""\
import sys
before = set(sys.modules)
from hipslake.cli.main import main
assert main({arguments!r}) == 0
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    imported = {name.partition(".")[0] for name in done.stderr.split()}
    assert imported - {"hipslake"} <= sys.stdlib_module_names
    assert "hipslake" in imported
    assert not any(name.startswith(("hipslake.api", "hipslake.steps")) for name in done.stderr.split())


def test_the_module_is_the_command_line() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"hipslake {hipslake.__version__}\n")


def test_it_works_where_neither_airflow_nor_spark_can_be_imported(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(night(7), tmp_path / "night.parquet")
    program = (
        REFUSE
        + f"""
place = {str(tmp_path)!r}
for arguments in (
    ["ingest", place + "/night.parquet", "--name", "stars", "--margin", "9"],
    ["ingest", place + "/night.parquet", "--name", "others", "--append", "--interval", "61000"],
    ["ls"],
    ["ls", "stars"],
    ["versions", "stars"],
    ["verify", "stars", "others"],
    ["read", "stars", "--region", "cone 30 0 20deg", "--columns", "id,mag", "--to", place + "/part.fits"],
    ["match", "others", "stars", "--radius", "1", "--name", "pairs"],
    ["specs", "check"],
    ["doctor"],
):
    code = main([*arguments, "--warehouse", place])
    assert code == 0, (arguments, code)
assert not set({REFUSED!r}) & {{name.partition(".")[0] for name in sys.modules}}
"""
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:] + done.stdout[-500:]
    assert "pairs, version 1: 400 rows" in done.stdout


def test_a_failure_that_may_pass_has_a_code_of_its_own() -> None:
    nobody = {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",  # nobody listens there
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "HIPSLAKE_STORE_CONNECT_SECONDS": "1",
        "HIPSLAKE_STORE_REQUEST_SECONDS": "2",
        "HIPSLAKE_STORE_TRIES": "1",
    }
    for more in ([], ["--json"]):
        command = [sys.executable, "-m", "hipslake", "ls", "--warehouse", "s3://bucket/lake", *more]
        done = subprocess.run(command, env=environment(**nobody), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (4, "")
        if more:
            assert json.loads(done.stderr)["error"]["retryable"] is True
        else:
            assert "(it may pass when it is tried again)" in done.stderr


def test_who_has_read_enough_may_leave(made_warehouse: Path) -> None:
    place = made_warehouse / "catalogs" / "survey"
    command = f"{sys.executable} -m hipslake read {place} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1:] == ["0"]
    assert done.stderr == ""


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(night(8, 4000), tmp_path / "night.parquet")
    program = f"""\
import os, signal, sys
from hipslake.cli.main import main
from hipslake.steps.ingest import write

def interrupted(table, groups):
    os.kill(os.getpid(), signal.SIGINT)
    return table

write.along_the_curve = interrupted
sys.exit(main(["ingest", {str(tmp_path / "night.parquet")!r}, "--name", "stars"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(HIPSLAKE_WAREHOUSE=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr.endswith("hipslake: interrupted\n")
    left = [path.name for path in (tmp_path / "catalogs" / "stars").iterdir()]
    assert not [name for name in left if not name.startswith("_")]
    spec = POSITION | {"name": "stars"}
    found = hipslake.ingest(tmp_path / "night.parquet", spec=spec, warehouse=tmp_path, spark=False)
    assert found.version == 1


def test_a_terminal_sees_how_far_it_is(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(night(9, 2000), tmp_path / "night.parquet")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hipslake", "ingest", str(tmp_path / "night.parquet"), "--name", "stars"]
    done = subprocess.Popen(
        [*command, "--json"],
        env=environment(HIPSLAKE_WAREHOUSE=str(tmp_path), COLUMNS="100"),
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # Linux says so when the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    out, _ = done.communicate()
    assert done.returncode == 0, seen
    assert json.loads(out)["rows"] == 2000
    told = seen.decode()
    for step in ("resolve", "inputs", "histogram", "plan", "write", "verify", "publish", "view"):
        assert f"  {step} ..." in told
    assert "2,000 rows" in told
