"""The list of commands that ``manage.py help`` prints, found without loading what the commands are for."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def listing(program: str, *more: str) -> str:
    """What Django would print, with the commands of ``more`` packages that are installed only for these.

    Raises ``ImportError`` for an app whose folder does not show by its name.
    """
    found: dict[str, str] = dict.fromkeys(_commands("django.core"), "django")
    installed: list[str] = import_module(os.environ["DJANGO_SETTINGS_MODULE"]).INSTALLED_APPS
    for app in reversed([*installed, *more]):
        found.update(dict.fromkeys(_commands(app), app.rpartition(".")[2]))
    lines = ["", f"Type '{program} help <subcommand>' for help on a specific subcommand.", "", "Available subcommands:"]
    for app in sorted(set(found.values())):
        lines += ["", _heading(f"[{app}]"), *(f"    {name}" for name in sorted(found) if found[name] == app)]
    return "\n".join(lines)


def _commands(package: str) -> Iterable[str]:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(package)
    folders = [str(Path(folder) / "management" / "commands") for folder in spec.submodule_search_locations]
    modules = pkgutil.iter_modules(folders)
    return [module.name for module in modules if not module.ispkg and not module.name.startswith("_")]


def _heading(text: str) -> str:
    return f"\x1b[31m{text}\x1b[0m" if sys.stdout.isatty() and "NO_COLOR" not in os.environ else text
