"""``manage.py up``: the whole installation with one command."""

from __future__ import annotations

import shutil
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from engine.core.env import Env
from engine.core.errors import ConfigurationError
from hbus_console.supervisor import checks, nsqd, prepare, roles, state, supervise
from hbus_console.supervisor.console import Console
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.supervisor import metrics_folder


class Command(BaseCommand):
    help = "Prepare this installation and run its roles until Ctrl-C. ROLES=web,consumer:2 runs only these."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--roles", default="", help="comma-separated; default: ROLES, else all")

    def handle(self, *_: Any, **options: Any) -> None:
        words = [word for word in options["roles"].split(",") if word] or Env().words("ROLES")
        embedded = not Env().text("REDIS_URL")
        named = {role.name for role, _ in roles.chosen(words, embedded=embedded)}
        lock = state.hold(settings.STATE)
        if lock is None:
            raise ConfigurationError(
                f"hbus is already running on {settings.STATE}.",
                remedy="Stop it first, or name another folder and port: STATE=… PORT=… make run.",
                field="STATE",
            )
        with lock:
            if "web" in named:
                checks.check_port(settings.BIND, settings.PORT)
            console = Console()
            for warning in checks.check_stores(console.say, embedded=embedded):
                console.say(f"Warning: {warning}")
            checks.check_databases()
            prepare.prepare(console.say)
            wanted = roles.chosen(words, embedded=embedded, needed=roles.needed())
            with_nsqd = any(role.name == "nsqd" for role, _ in wanted)
            if with_nsqd:
                nsqd.build(console.say)
            # Whatever may refuse comes before this: it makes a password that is told once.
            password = prepare.first_admin()
            connections.close_all()
            if password is not None:
                _tell_password(console, password)
            shutil.rmtree(metrics_folder(settings.STATE), ignore_errors=True)
            metrics_folder(settings.STATE).mkdir(mode=0o700)
            at = Installation.from_settings(starting_store=embedded, starting_nsqd=with_nsqd)
            supervise.become(at, wanted, lock)


def _tell_password(console: Console, password: str) -> None:
    """Once, on the terminal, and nowhere else."""
    console.say("First start: sign in as")
    console.say(f"    user      {console.paint(1, 'admin')}")
    console.say(f"    password  {console.paint(1, password)}")
    console.say("It is not shown again and stands in no file. Change it after signing in.")
