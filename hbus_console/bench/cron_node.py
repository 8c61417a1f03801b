"""A measured process: one node that decides the slots of many jobs."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import django
from django.core.management import call_command

from hbus_console.bench.processes import report, wait_for_go


def main(task: dict[str, Any]) -> None:
    """``task``: state, url, schedules; ``seconds`` for which each comes once a minute, 0: all in one second."""
    os.environ.update(STATE=task["state"], REDIS_URL=task["url"], DJANGO_SETTINGS_MODULE="hbus_console.settings")
    django.setup()
    call_command("migrate", verbosity=0)
    # It stands on models, which are there only now.
    from hbus_console.bench.cron_deciding import MeasuredNode

    measured = MeasuredNode(task["url"], int(task["schedules"]), int(task["seconds"]))
    wait_for_go()
    measured.run()
    report(**measured.figures)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
