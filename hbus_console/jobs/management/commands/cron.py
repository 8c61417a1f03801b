"""``manage.py cron next``: when an expression fires, before anybody relies on it."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError

from engine.core.clock import SystemClock
from engine.core.errors import BadInput
from engine.cron.expression import FoldPolicy, GapPolicy, explain
from hbus_console.jobs.preview import Question, SlotPreview, answer, preview, told
from hbus_console.jobs.wall import MARKS

#: Lines that are answered before they are written.
_TOGETHER = 500


class Command(BaseCommand):
    help = "Print when a cron expression fires next."

    def add_arguments(self, parser: ArgumentParser) -> None:
        acts = parser.add_subparsers(dest="act", required=True)
        following = acts.add_parser("next", help="its next slots, on the wall and in UTC, and what it means in words")
        following.add_argument("spec", nargs="?", help="the expression, in quotes")
        following.add_argument("--zone", default="UTC", help="time zone, such as Europe/Lisbon")
        following.add_argument("--after", default="", help="instant, or wall time of the zone; now without it")
        following.add_argument("--count", type=int, default=5, help="how many slots")
        following.add_argument("--gap", default=GapPolicy.END.value, help="times left out by the clocks: end or skip")
        following.add_argument("--fold", default=FoldPolicy.FIRST.value, help="repeated times: first, both or last")
        following.add_argument("--job", default="", help="the job whose name spreads H")
        following.add_argument("--json", action="store_true", help="print one JSON object")
        following.add_argument("--stdin", action="store_true", help="answer JSON lines, a line each")

    def handle(self, *args: Any, **options: Any) -> None:
        now_s = SystemClock().now_ms() // 1000
        if options["stdin"]:
            self._answer_lines(now_s)
            return
        if options["spec"] is None:
            raise CommandError("Give an expression in quotes, or --stdin.", returncode=2)
        try:
            shown = preview(_question(options), now_s)
        except BadInput as error:
            if options["json"]:
                self.stdout.write(json.dumps({"error": told(error)}))
                sys.exit(2)
            raise CommandError(str(error), returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(shown.as_dict()))
        else:
            self._show(shown)

    def _answer_lines(self, now_s: int) -> None:
        out, encoder, kept = sys.stdout.buffer, msgspec.json.Encoder(), bytearray()
        try:
            for number, line in enumerate(sys.stdin.buffer, 1):
                kept += encoder.encode(answer(line, now_s)) + b"\n"
                if number % _TOGETHER == 0:
                    out.write(kept)
                    kept.clear()
        finally:
            # Whatever happens to a line: those before it have their answers.
            out.write(kept)
            out.flush()

    def _show(self, shown: SlotPreview) -> None:
        # Not at the top: it takes a tenth of a second, and lines of JSON do without.
        from engine.cron.expression.second_opinion import croniter_slots

        self.stdout.write(explain(shown.schedule))
        for slot in shown.slots:
            mark = f"  {MARKS[slot.mark]}" if slot.mark else ""
            self.stdout.write(f"  {slot.local}  {slot.utc}{mark}")
        others = croniter_slots(shown.schedule, shown.after, len(shown.slots))
        if others is None:
            self.stdout.write("croniter cannot read it.")
        elif others == [slot.at for slot in shown.slots]:
            self.stdout.write("croniter gives the same.")
        else:
            self.stdout.write("croniter differs; docs/cron-semantics.md says where and why.")


def _question(options: dict[str, Any]) -> Question:
    names = ("spec", "after", "count", "gap", "fold", "job")
    return Question(tz=options["zone"], **{name: options[name] for name in names})
