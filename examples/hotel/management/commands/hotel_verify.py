"""``manage.py hotel_verify``: is the read model what the bookings say, and each slot what its schedule demands?"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from examples.hotel import feeds, slots, verify


class Command(BaseCommand):
    help = (
        "Compute the room-nights straight from the bookings, and the slots of the hotels' jobs straight from their"
        " schedules, and compare them with what there is; exit 1 if unequal."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bookings", default="", help="a bookings CSV (default: BOOKINGS, else the simulator)")
        parser.add_argument("--limit", type=int, help="only the first so many bookings")
        parser.add_argument("--json", action="store_true", help="print one JSON line")

    def handle(self, *args: Any, **options: Any) -> None:
        feed = feeds.open_feed(feeds.bookings_file(options["bookings"]), options["limit"])
        comparison, verdict = verify.compare(feed), slots.judge()
        if options["json"]:
            told = {**msgspec.structs.asdict(verdict), "demanded": verdict.demanded, "done": verdict.done}
            answer = {
                **msgspec.structs.asdict(comparison),
                "equal": comparison.equal,
                "slots": {**told, "open": verdict.open, "effects": verdict.effects, "equal": verdict.equal},
            }
            self.stdout.write(msgspec.json.encode(answer).decode())
        else:
            self._tell_nights(comparison)
            self._tell_slots(verdict)
        if not (comparison.equal and verdict.equal):
            sys.exit(1)

    def _tell_nights(self, comparison: verify.Comparison) -> None:
        if comparison.equal:
            self.stdout.write(
                f"Equal: {comparison.room_nights:,} room-nights in {comparison.nights:,} nights of"
                f" {comparison.bookings:,} bookings ({comparison.source})."
            )
            return
        self.stdout.write(f"Not equal: {comparison.different:,} nights of {comparison.source} differ, first:")
        for one in comparison.differences:
            self.stdout.write(f"  {one.hotel}, {one.night}: {one.expected} expected, {one.found} found")

    def _tell_slots(self, verdict: slots.SlotVerdict) -> None:
        say = self.stdout.write
        explained = sum(verdict.explained.values())
        said = "Equal" if verdict.equal else "Not equal"
        say(
            f"{said}: {verdict.demanded:,} slots demanded of {len(verdict.jobs)} jobs:"
            f" {verdict.done:,} done with {verdict.effects:,} effects, {explained:,} not, each with its reason,"
            f" {verdict.open:,} under way."
        )
        if verdict.equal:
            return
        faults = [f"{count:,} {what.replace('_', ' ')}" for what, count in verdict.faults.items() if count]
        if faults:
            say(f"  {', '.join(faults)}; first:")
        for difference in verdict.differences:
            say(f"  {difference}")
        for begin in verdict.unfinished:
            say(f"  the simulated night of {begin} was not played to its end")
