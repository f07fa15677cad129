"""Runs Python blocks in the peers' interpreter: a request per line comes in, a traceback or nothing goes out.

Blocks of a page share their names, as they do in ours.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what blocks print is no answer

spaces: dict[str, dict[str, object]] = {}

for line in sys.stdin:
    asked = json.loads(line)
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    names = spaces.setdefault(asked["page"], {"__name__": "__main__"})
    try:
        exec(compile(asked["source"], asked["file"], "exec"), names)
        told = ""
    except BaseException:
        told = traceback.format_exc()
    print(json.dumps(told), file=ANSWERS, flush=True)
