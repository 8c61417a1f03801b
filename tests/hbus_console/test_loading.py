"""What each process loads: only what it runs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hbus_console.state import ROOT

#: Loaded by who needs it, when it does.
HEAVY = {
    "celery",
    "httpx",
    "jsonschema_rs",
    "prompt_toolkit",
    "psycopg",
    "pyarrow",
    "rest_framework.views",
    "rich",
    "uvicorn",
}


def _loaded(code: str) -> set[str]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "hbus_console.settings"}
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        cwd=ROOT,
        env={name: value for name, value in environment.items() if name != "DATABASE_URL"},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return set(shown.stdout.split())


def test_the_supervisor_loads_neither_django_nor_what_roles_run() -> None:
    loaded = _loaded(
        "from hbus_console.registry.loading import resolve\n"
        "from hbus_console.supervisor import supervise\n"
        "from hbus_console.supervisor.roles import roles\n"
        "for role in roles().values():\n"
        "    for named in (role.declared.probe, role.declared.command, role.declared.address):\n"
        "        named and resolve(named)\n"
    )
    assert "hbus_console.supervisor.supervisor" in loaded
    assert not loaded & {*HEAVY, "django", "structlog"}


def test_a_command_loads_no_page_no_endpoint_and_nothing_heavy() -> None:
    loaded = _loaded("import django\ndjango.setup()\n")
    assert "hbus_console.topics.models" in loaded
    assert not loaded & {*HEAVY, "hbus_console.urls", "hbus_console.topics.services", "engine.bus.producer"}


@pytest.mark.parametrize(
    ("role", "needs"),
    [("consumer", {"celery"}), ("keeper", {"httpx"})],
)
def test_a_role_in_the_background_loads_no_page_and_nothing_heavy_it_does_not_need(role: str, needs: set[str]) -> None:
    code = (
        "import django\ndjango.setup()\n"
        f"import hbus_console.{role}{'s' if role == 'consumer' else ''}.role\n"
        "from hbus_console.consumers import hosting\n"
        "import hbus_console.keeper.duties\n"
        "from hbus_console.registry.loading import features, resolve\n"
    )
    if role == "keeper":
        code += "for feature in features():\n    for duty in feature.duties:\n        resolve(duty)\n"
    loaded = _loaded(code)
    assert needs <= loaded
    assert not loaded & {"hbus_console.urls", "rich", "prompt_toolkit", "psycopg", "pyarrow", "uvicorn"}
