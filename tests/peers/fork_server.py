"""Runs programs in forks of one process that has imported what they use, which takes seconds each time.

In any interpreter: `fork_server.py`, and the modules to import as far as they are there. Every line that
comes in is a JSON object with `argv` (as the interpreter takes it: `-c`, code, arguments, or a script and
arguments), `env`, and the paths `stdin`, `stdout` and `stderr`. Every line that goes out is an exit code.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

# Each fork would compile functions of the peers for seconds, which little skies never win back.
os.environ["NUMBA_DISABLE_JIT"] = "1"
LONGEST = 500  # seconds that a program may take; then it is ended
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for _module in sys.argv[1:]:
    with contextlib.suppress(ImportError):
        importlib.import_module(_module)


def run(asked: dict[str, Any]) -> int:
    """In a fork: become the program that was asked for, and run it."""
    signal.alarm(LONGEST)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = os.open(asked[name], os.O_RDONLY if number == 0 else os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    program, *arguments = asked["argv"]
    try:
        if program == "-c":
            sys.argv = ["-c", *arguments[1:]]
            sys.path[0] = ""
            exec(compile(arguments[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = [program, *arguments]
            sys.path[0] = str(Path(program).resolve().parent)
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run(json.loads(line))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), file=ANSWERS, flush=True)
