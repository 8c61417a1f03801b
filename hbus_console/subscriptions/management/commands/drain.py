"""``manage.py drain TOPIC GROUP``: hold a subscription and wait until it stands still everywhere."""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandParser

from hbus_console.access.command_line import command_line_actor
from hbus_console.subscriptions import services
from hbus_console.subscriptions.api.shapes import drain as as_json

#: Seconds between two looks.
LOOK_S = 0.5


class Command(BaseCommand):
    help = "Hold a subscription and wait until nothing of it is in flight on any node. Exit 1 when the time is up."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("topic")
        parser.add_argument("group")
        parser.add_argument("--reason", required=True, help="kept in the audit log")
        parser.add_argument("--timeout", type=float, default=60.0, help="seconds to wait; it stays held in any case")
        parser.add_argument("--json", action="store_true", help="print the last state as one JSON line, nothing else")

    def handle(self, *_: Any, **options: Any) -> None:
        actor, one = command_line_actor(), (options["topic"], options["group"])
        until = time.monotonic() + options["timeout"]
        services.drain(actor, *one, options["reason"])
        said = ""
        while True:
            found = services.drain_status_if_known(actor, *one)
            if found.sentence != said and not options["json"]:
                self.stdout.write(found.sentence)
                said = found.sentence
            if found.drained or time.monotonic() >= until:
                break
            time.sleep(LOOK_S)
        if options["json"]:
            self.stdout.write(msgspec.json.encode(as_json(found)).decode())
        for node in found.silent:
            self.stderr.write(f"{node} is silent: what it still does is not known; its leases run out.")
        if not found.drained:
            self.stderr.write(
                f"Not drained within {options['timeout']:g} seconds. It stays held; resume it, or wait on."
            )
            sys.exit(1)
