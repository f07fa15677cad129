"""Shell blocks: bash runs them as they stand.

What is cheap is really run. Commands that are dear, or that need what no test has, are stood in for by
programs that only note how they were called; each call is then held against what it names: targets, DAGs and
their forms, services. A command that is neither is not found, which fails the block.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from airflow.cli.cli_parser import get_parser
from packaging.requirements import Requirement

from tests.docs.blocks import ROOT, Block
from tests.docs.checkout import Checkout
from tests.docs.forked_commands import ASK
from tests.docs.variables import assigned, check_variable

_ASK = "ask.py"
REALLY_RUN = ("cat", "cp", "find", "grep", "head", "ls", "mkdir", "mv", "rm", "sha256sum", "sort")
COMPOSE_OPTIONS = {"up": {"--build", "--detach", "--wait"}, "exec": set(), "down": {"--volumes"}, "ps": set()}

Dags = Mapping[str, Any]
Check = Callable[[list[str], Dags], None]


def make_stand_ins(folder: Path, forks: Path) -> Path:
    """Fill a folder with the only programs that blocks may start; `hipslake` starts as a fork."""
    folder.mkdir()
    note = (
        f'#!{shutil.which("bash")}\nprintf "%s\\0" "${{0##*/}}" "$@" >>"$CALLS"; printf "\\n\\0" >>"$CALLS"\n'
    )
    for name in CHECKS:
        (folder / name).write_text(note)
        (folder / name).chmod(0o755)
    for name in REALLY_RUN:
        (folder / name).symlink_to(str(shutil.which(name)))
    python = {"python": "", "python3": "", "hipslake": f"-I -S {folder / _ASK} {forks} hipslake"}
    for name, called in python.items():
        (folder / name).write_text(f'#!{shutil.which("bash")}\nexec {sys.executable} {called} "$@"\n')
        (folder / name).chmod(0o755)
    (folder / _ASK).write_text(ASK)
    return folder


def run_shell(block: Block, checkout: Checkout, dags: Dags, programs: Path) -> list[list[str]]:
    """Run a block, and check the calls that it made and the variables that it set; return the calls."""
    calls = checkout.root / ".calls"
    calls.write_bytes(b"")
    environment = {
        **checkout.environment,
        "PATH": str(programs),
        "HOME": str(checkout.root),
        "CALLS": str(calls),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins")]),
        "VIRTUAL_ENV": sys.prefix,
    }
    done = subprocess.run(
        [str(shutil.which("bash")), "-euo", "pipefail", "-c", block.text],
        cwd=checkout.root,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{block}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    made = [call.split("\0")[:-1] for call in calls.read_text().split("\n\0")[:-1]]
    for name, *arguments in made:
        CHECKS[name](arguments, dags)
    for name, value in assigned(block.text):
        check_variable(name, value)
    return made


def _make(arguments: list[str], dags: Dags) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for argument in arguments:
        if argument.startswith("ARGS="):
            continue
        assert re.search(rf"^{re.escape(argument)}:", makefile, re.MULTILINE), (
            f"make has no target {argument}"
        )


def _airflow(arguments: list[str], dags: Dags) -> None:
    """Airflow's own parser takes the words, the DAG is there, and its form takes the params."""
    try:
        given = get_parser().parse_args(arguments)
    except SystemExit:
        raise AssertionError(f"airflow does not take: {' '.join(arguments)}") from None
    if (dag_id := getattr(given, "dag_id", None)) is None:
        return
    assert dag_id in dags, f"there is no DAG {dag_id}"
    for name in ("conf", "dag_run_conf"):
        if text := getattr(given, name, None):
            check_form(dags[dag_id], json.loads(text))


def check_form(dag: Any, params: dict[str, Any]) -> None:
    """Fail for params that the form of a DAG does not take."""
    unknown = sorted(set(params) - set(dag.params))
    assert not unknown, f"{dag.dag_id} has no params {', '.join(unknown)}"
    form = copy.deepcopy(dag.params)
    form.update(params)
    form.validate()


def _docker(arguments: list[str], dags: Dags) -> None:
    compose, command, *rest = arguments
    assert compose == "compose"
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    options = [word for word in rest if word.startswith("--")] if command != "exec" else []
    assert set(options) <= COMPOSE_OPTIONS[command], f"docker compose {command} with {options}"
    if command == "exec":
        service, *inner = rest
        assert service in services, f"there is no service {service}"
        if inner[:2] == ["python", "-m"]:
            assert importlib.util.find_spec(inner[2]), f"there is no module {inner[2]}"


def _sudo(arguments: list[str], dags: Dags) -> None:
    """Packages are asked for that the checks of the setup name, or that those need."""
    assert arguments[:2] == ["apt", "install"]
    named = (ROOT / "include" / "setup" / "checks.sh").read_text()
    for package in arguments[2:]:
        assert package in {"git", "make", "default-jre-headless"} or package in named, (
            f"what is {package} for?"
        )


def _pip(arguments: list[str], dags: Dags) -> None:
    """This package is asked for, at its version, with extras that it has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    command, *wanted = arguments
    assert command == "install"
    for requirement in map(Requirement, wanted):
        assert requirement.name == project["name"]
        assert requirement.extras <= set(project["optional-dependencies"])
        if requirement.url:
            assert requirement.url.endswith(f"/dist/hipslake-{project['version']}-py3-none-any.whl")


CHECKS: dict[str, Check] = {
    "make": _make,
    "airflow": _airflow,
    "docker": _docker,
    "pip": _pip,
    "sudo": _sudo,
}


def nights_of(call: list[str]) -> tuple[str, datetime | None] | None:
    """The catalog, and the date, of a call of `airflow dags test` for an ingest; None of any other call."""
    if call[:3] != ["airflow", "dags", "test"] or not call[3].startswith("catalog_ingest__"):
        return None
    return call[3].removeprefix("catalog_ingest__"), datetime.fromisoformat(call[4]) if call[4:] else None
