"""``manage.py hotel_verify``: is the read model what the bookings say?"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

import msgspec
from django.core.management.base import BaseCommand

from examples.hotel import feeds, verify


class Command(BaseCommand):
    help = "Compute the room-nights straight from the bookings and compare them with the read model; exit 1 if unequal."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bookings", default="", help="a bookings CSV (default: BOOKINGS, else the simulator)")
        parser.add_argument("--limit", type=int, help="only the first so many bookings")
        parser.add_argument("--json", action="store_true", help="print one JSON line")

    def handle(self, *args: Any, **options: Any) -> None:
        feed = feeds.open_feed(feeds.bookings_file(options["bookings"]), options["limit"])
        comparison = verify.compare(feed)
        if options["json"]:
            answer = {**msgspec.structs.asdict(comparison), "equal": comparison.equal}
            self.stdout.write(msgspec.json.encode(answer).decode())
        elif comparison.equal:
            self.stdout.write(
                f"Equal: {comparison.room_nights:,} room-nights in {comparison.nights:,} nights of"
                f" {comparison.bookings:,} bookings ({comparison.source})."
            )
        else:
            self.stdout.write(f"Not equal: {comparison.different:,} nights of {comparison.source} differ, first:")
            for one in comparison.differences:
                self.stdout.write(f"  {one.hotel}, {one.night}: {one.expected} expected, {one.found} found")
        if not comparison.equal:
            sys.exit(1)
