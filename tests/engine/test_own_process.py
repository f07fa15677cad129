"""A process of our own collects garbage seldom, takes no huge pages, and imports pandas only for frames."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import gc, sys
from hipslake.engine.own_process import tune_process
class Cycle:
    def __init__(self): self.self = self
    def __del__(self): print("collected")
before = gc.get_threshold()[0]
if sys.argv[1] == "tuned":
    tune_process()
assert (gc.get_threshold()[0] > before) is (sys.argv[1] == "tuned")
kept = Cycle()
if sys.platform == "linux":
    print([line for line in open("/proc/self/status") if line.startswith("THP_enabled")])
else:
    print()
"""


def lines_of(how: str) -> list[str]:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True, text=True)
    return ran.stdout.splitlines()


def test_garbage_is_not_collected_when_a_tuned_process_ends() -> None:
    assert lines_of("tuned")[1:] == []
    assert lines_of("plain")[1:] == ["collected"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has them")
def test_a_tuned_process_has_no_huge_pages() -> None:
    assert lines_of("tuned")[0] == r"['THP_enabled:\t0\n']"
    assert lines_of("plain")[0] == r"['THP_enabled:\t1\n']"


WITHOUT_PANDAS = """
import sys
import pyarrow as pa
from hipslake.engine.own_process import leave_pandas_out
if sys.argv[1] == "imported":
    import pandas
elif sys.argv[1] == "left out":
    leave_pandas_out()
pa.array([1, None])
print("pandas" in sys.modules)
leave_pandas_out()
frame = pa.table({"number": [1.5, None]}).to_pandas()
import pandas
assert isinstance(frame, pandas.DataFrame)
assert pa.Table.from_pandas(frame)["number"].to_pylist() == [1.5, None]
assert pandas.DataFrame({"a": [1]}).sum().a == 1
"""


@pytest.mark.parametrize(
    ("how", "imported"), [("plain", "True"), ("left out", "False"), ("imported", "True")]
)
def test_pandas_is_imported_only_for_frames(how: str, imported: str) -> None:
    program = [sys.executable, "-c", WITHOUT_PANDAS, how]
    ran = subprocess.run(program, check=True, capture_output=True, text=True)
    assert ran.stdout.split() == [imported]


LAZY = """
import sys
from hipslake.engine.own_process import import_when_used
import_when_used("package.slow", "package.missing", "json")
import package
import package.slow as slow
import json
print("run" in package.seen, json.loads("[1]"))
print(slow.VALUE, "run" in package.seen)
from package.slow import VALUE
try:
    import package.missing
except ModuleNotFoundError as error:
    print(error.name)
"""


def test_a_module_runs_when_something_of_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("seen = []\n")
    (tmp_path / "package" / "slow.py").write_text("import package\npackage.seen.append('run')\nVALUE = 3\n")
    program = [sys.executable, "-c", LAZY]
    ran = subprocess.run(program, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert ran.stdout.splitlines() == ["False [1]", "3 True", "package.missing"]


def test_a_filter_in_a_text_is_still_read() -> None:
    program = """
from hipslake.cli.main import SELDOM_USED
from hipslake.engine.own_process import import_when_used
import_when_used(*SELDOM_USED)
import sys, pyiceberg.table
print("pyparsing" in sys.modules, pyiceberg.table._parse_row_filter("a > 1"), "pyparsing" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout.startswith("False GreaterThan(")
    assert ran.stdout.endswith(" True\n")


ENDED = """
import atexit, sys, threading, time
from hipslake.engine.own_process import end_process
class Held:
    def __del__(self): print("freed")
held = Held()
atexit.register(lambda: print("told"))
def work():
    time.sleep(0.3)
    print("worked")
if sys.argv[1] != "none":
    threading.Thread(target=work, daemon=sys.argv[1] == "daemon").start()
print("error", file=sys.stderr)
end_process(7)
"""


@pytest.mark.parametrize(
    ("threads", "printed"),
    [("none", ["told"]), ("daemon", ["told"]), ("working", ["worked", "told", "freed"])],
)
def test_an_ended_process_has_called_and_printed_all_and_waited_for_threads(
    threads: str, printed: list[str]
) -> None:
    ran = subprocess.run([sys.executable, "-c", ENDED, threads], check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.splitlines(), ran.stderr) == (7, printed, "error\n")
