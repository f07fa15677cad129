"""Health checks of containers: `python -m hipslake_cluster.health URL [COMPONENT]`.

Ends well if the address answers and, where a component of Airflow is named, the API calls it healthy. Needs
nothing but Python, as it runs every few seconds.
"""

from __future__ import annotations

import json
import sys
import urllib.request


def problem(url: str, *components: str, seconds: float = 10) -> str:
    """Return what is wrong, or "".

    Parameters
    ----------
    url : str
        Answers with a status below 400; for components, Airflow's `/api/v2/monitor/health`.
    *components : str
        Such as `scheduler`, `dag_processor`, `triggerer`; by default only the address has to answer.
    """
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:
            told = json.load(answer) if components else {}
    except (OSError, ValueError) as error:
        return f"{url}: {error}"
    states = {name: (told.get(name) or {}).get("status") for name in components}
    wrong = (f"{name} is {status or 'unknown'}" for name, status in states.items() if status != "healthy")
    return next(wrong, "")


def main() -> int:
    """Say what is wrong, if anything is."""
    if len(sys.argv) not in (2, 3):
        print("usage: python -m hipslake_cluster.health URL [COMPONENT]", file=sys.stderr)
        return 2
    found = problem(*sys.argv[1:])
    if found:
        print(found, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
