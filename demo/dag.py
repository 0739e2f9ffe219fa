"""What the demo does in Airflow, in one process, because a start of Airflow costs seconds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from demo.surroundings import PROJECT, Home


def main() -> int:
    """Bring Airflow's database up to date, then read a line: with variables of the environment, as JSON, for a run.

    Returns the exit code: 0 if the run succeeded, or if the input ended without a line.
    """
    Home(Path(os.environ["DEMO_HOME"])).migrate()
    line = sys.stdin.readline()
    if not line:
        return 0
    os.environ.update(json.loads(line))
    from sitemap_etl.airflow import site_dags

    run = site_dags(PROJECT / "sites")["demo"].test(run_conf={"moved": True})  # the bucket may be at another port
    return 0 if run.state == "success" else 1


if __name__ == "__main__":
    sys.exit(main())
