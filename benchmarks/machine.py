"""The machine that a benchmark ran on, and the versions of what it ran."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from hipslake import __version__

OURS = ("pyspark", "pyarrow", "numpy", "healpy")
PEERS = ("hats-import", "hats", "dask", "pyarrow", "numpy")


def describe(
    peers_python: str, *, ours: Sequence[str] = OURS, peers: Sequence[str] = PEERS
) -> dict[str, Any]:
    """Return cores, memory, and versions of packages of this machine, in our environment and the peers'."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": java.splitlines()[0] if java else "none",
        "versions": {"hipslake": __version__} | {name: version(name) for name in ours},
        "peer_versions": _versions_in(peers_python, peers),
        "load_before": os.getloadavg()[0],
    }


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.processor()


def _versions_in(python: str, names: Sequence[str]) -> dict[str, str]:
    if python == sys.executable or not os.access(python, os.X_OK):  # without peers, ours are measured alone
        return {}
    code = (
        "import json; from importlib.metadata import version; "
        f"print(json.dumps({{name: version(name) for name in {tuple(names)}}}))"
    )
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    found: dict[str, str] = json.loads(answer.stdout) if answer.returncode == 0 else {}
    return found


def described_in_a_line() -> str:
    """This machine and the versions that matter, as the pages of benchmarks begin."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("pyarrow", "pyspark"))
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{_processor()}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, {platform.system()} "
        f"{platform.release()}, Python {platform.python_version()}; {versions}"
    )
