"""``manage.py consumers status|pause|resume|drain``: what runs in the workers, and holding it there."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from hbus_console.access.command_line import command_line_actor
from hbus_console.access.permissions import Actor
from hbus_console.consumers.services import ACTS, steer, still_at_work, worker_status

#: Seconds between two looks at a drain; each takes as long as workers have to answer besides.
LOOK_S = 0.2


class Command(BaseCommand):
    help = "Show what the consumer workers run; pause, resume or drain subscriptions on them."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("act", choices=("status", *ACTS))
        parser.add_argument("--topic", default="", help="only subscriptions on this topic")
        parser.add_argument("--group", default="", help="only subscriptions of this group")
        parser.add_argument("--worker", default="", help="only this worker, e.g. consumer-0@host")
        parser.add_argument("--reason", default="", help="why (required to pause and to drain)")
        parser.add_argument(
            "--timeout", type=float, default=60.0, help="seconds to wait for the end of a drain; 0: do not wait"
        )
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
            self._print_done(answers)
        if not answers:
            self.stderr.write(f"No worker answered{f' as {worker}' if worker else ''}.")
            sys.exit(1)
        failed = _failed(answers)
        done = sorted(answers.keys() - failed.keys())
        if done and options["act"] == "drain" and options["timeout"] > 0:
            self._wait(actor, done, options)
        if failed:
            sys.exit(1)

    def _print_done(self, answers: dict[str, dict[str, Any]]) -> None:
        failed = _failed(answers)
        for name, answer in sorted(answers.items()):
            if name in failed:
                self.stderr.write(f"{name}: {failed[name]}")
                continue
            named = ", ".join(f"{group} on {topic}" for topic, group in answer.get("subscriptions", []))
            self.stdout.write(f"{name}: {answer['ok']} {named}".rstrip())

    def _wait(self, actor: Actor, workers: list[str], options: dict[str, Any]) -> None:
        """Until nothing of what was drained runs on these workers any more."""
        until, said = time.monotonic() + options["timeout"], ""
        while busy := still_at_work(actor, workers, topic=options["topic"], group=options["group"]):
            line = "; ".join(f"{worker}: {_left(running)}" for worker, running in sorted(busy.items()))
            if line != said:
                self.stderr.write(f"Draining: {line}")
                said = line
            if time.monotonic() >= until:
                self.stderr.write(f"Not drained within {options['timeout']:g} seconds.")
                sys.exit(1)
            time.sleep(LOOK_S)
        if not options["json"]:
            self.stdout.write(f"Drained: nothing of it runs on {', '.join(workers)}.")

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
            if unnamed := report.get("idle_unnamed", 0):
                self.stdout.write(f"  and {unnamed:,} more not running, for want of a handler")


def _failed(answers: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Which workers have not done it, and why. The ``error`` beside a report's ``consumers`` is what troubles those."""
    return {
        name: str(answer["error"])
        for name, answer in answers.items()
        if "error" in answer and "consumers" not in answer
    }


def _left(running: dict[tuple[str, str], int]) -> str:
    if not running:
        return "does not answer"
    return ", ".join(f"{count} in flight in {group} on {topic}" for (topic, group), count in sorted(running.items()))
