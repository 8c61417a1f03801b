"""``manage.py consumers status|pause|resume|drain``: what runs in the workers, and holding it there."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from hbus_console.accounts.command_line import command_line_actor
from hbus_console.consumers.services import ACTS, steer, worker_status


class Command(BaseCommand):
    help = "Show what the consumer workers run; pause, resume or drain subscriptions on them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("act", choices=("status", *ACTS))
        parser.add_argument("--topic", default="", help="only subscriptions on this topic")
        parser.add_argument("--group", default="", help="only subscriptions of this group")
        parser.add_argument("--worker", default="", help="only this worker, e.g. consumer-0@host")
        parser.add_argument("--reason", default="", help="why (required to pause and to drain)")
        parser.add_argument("--json", action="store_true", help="print one JSON line")

    def handle(self, *args: Any, **options: Any) -> None:
        actor, worker = command_line_actor(), options["worker"]
        if options["act"] == "status":
            answers = worker_status(actor, worker)
        else:
            answers = steer(
                actor,
                options["act"],
                topic=options["topic"],
                group=options["group"],
                worker=worker,
                reason=options["reason"],
            )
        if options["json"]:
            self.stdout.write(msgspec.json.encode(answers).decode())
        elif options["act"] == "status":
            self._print_status(answers)
        else:
            for name, answer in sorted(answers.items()):
                named = ", ".join(f"{group} on {topic}" for topic, group in answer.get("subscriptions", []))
                self.stdout.write(f"{name}: {answer.get('error') or answer['ok']} {named}".rstrip())
        if not answers:
            self.stderr.write(f"No worker answered{f' as {worker}' if worker else ''}.")
            sys.exit(1)

    def _print_status(self, answers: dict[str, dict[str, Any]]) -> None:
        for name, report in sorted(answers.items()):
            self.stdout.write(f"{name}  {report.get('error', '')}".rstrip())
            for one in report.get("consumers", ()):
                # A consumer keeps its last trouble for the record; while it runs well that is no news.
                trouble = "" if one["state"] in ("running", "paused") else one["last_error"]
                self.stdout.write(
                    f"  {one['group']} on {one['topic']}: {one['state']},"
                    f" {one['in_flight']} of {one['concurrency']} threads busy,"
                    f" {one['handled']:,} handled, {one['rate']:.1f}/s {trouble}".rstrip()
                )
            for one in report.get("idle", ()):
                self.stdout.write(f"  {one['group']} on {one['topic']}: not running, {one['why']}")
