from __future__ import annotations

import os
import resource
import subprocess
import sys

from django.core.management import ManagementUtility

from hbus_console.listing import listing
from hbus_console.state import ROOT

#: Of the processor, in seconds.
GOAL_S = 0.35


def test_the_commands_are_listed_as_django_would() -> None:
    assert listing("manage.py") == ManagementUtility(["manage.py", "help"]).main_help_text()


def test_asking_for_help_is_quick_and_loads_no_model() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "hbus_console.settings", "PYTHONVERBOSE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    asked = subprocess.run(
        [sys.executable, "-X", "importtime", "manage.py", "help"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"manage.py help: {took_s:.2f} s of the processor")
    assert "[supervisor]" in asked.stdout
    assert "[bench]" in asked.stdout
    assert "django.db" not in asked.stderr
    assert took_s < GOAL_S
