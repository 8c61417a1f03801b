"""`manage.py soak`: whether memory stays flat over millions of messages."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from hbus_console.bench import soak
from hbus_console.bench.arguments import minutes, number


class Command(BaseCommand):
    help = (
        "Publish and handle messages, facts on, with retention bounding the store, and print memory as it goes. "
        "Exit 1: memory grew, or the counts do not add up."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--messages", type=number, default=10_000_000, help="how many (default 10,000,000)")
        parser.add_argument("--minutes", type=minutes, default=60.0, help="publish for so long at most (default 60)")

    def handle(self, *_: Any, **options: Any) -> None:
        result = soak.run(options["messages"], options["minutes"], self._say)
        early = "" if result.published == options["messages"] else f" of {options['messages']:,}, for time was up"
        self._say(
            f"{result.published:,} published{early}; {result.handled:,} handled; {result.settled:,} settled; "
            f"{result.facts:,} facts; {result.seconds:,.0f} s, {result.published / result.seconds:,.0f} msg/s"
        )
        for each in result.growth:
            self._say(str(each))
        for problem in result.problems:
            self.stderr.write(problem)
        if result.problems:
            raise SystemExit(1)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
