"""``manage.py hotel_search``: partners search for free rooms, each as much as its plan allows."""

from __future__ import annotations

import signal
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from examples.hotel import feeds, searching
from examples.hotel.installation import console_url
from examples.hotel.seed import seed
from hbus_console.access.command_line import command_line_actor
from hbus_console.wiring import store


class Command(BaseCommand):
    help = (
        "Let three partners search for the arrivals of the bookings, one of them far too often; exit 1 if it is felt."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bookings", default="", help="a bookings CSV (default: BOOKINGS, else the simulator)")
        parser.add_argument("--limit", type=int, help="only the first so many bookings")
        parser.add_argument("--seconds", type=float, default=10.0, help="for how long (10)")
        parser.add_argument("--json", action="store_true", help="print one JSON line")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.HBUS_QUOTAS:
            raise CommandError("This installation keeps no quotas: HBUS_QUOTAS is 0.")
        if not options["seconds"] > 0:
            raise CommandError("--seconds has to be above 0.")
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        feed = feeds.open_feed(feeds.bookings_file(options["bookings"]), options["limit"])
        actor = command_line_actor()
        seed(actor)
        searching.seed_policies(actor)
        outcome = searching.play(feed, options["seconds"], stop)
        store.close()
        if options["json"]:
            told = {**msgspec.structs.asdict(outcome), "holds": outcome.holds, "served": outcome.served}
            self.stdout.write(msgspec.json.encode(told).decode())
        else:
            tell(outcome, self.stdout.write)
        if stop.is_set():
            sys.exit(130)
        if not (outcome.holds and outcome.served):
            sys.exit(1)


def tell(outcome: searching.SearchOutcome, say: Callable[[str], object]) -> None:
    """What each partner asked for and got, beside what its policy allows."""
    say(f"Partners have searched for {outcome.took_s:.1f} s, at {searching.DESKS} desks that share the limits:")
    for share in outcome.shares:
        say(
            f"  {share.partner:<11} plan {share.plan:<8} {share.searches:>6,} searches: {share.answered:>5,} answered"
            f" (the policy allows {share.allowed:,.0f}), {share.refused:>5,} refusals, the slowest after"
            f" {share.slowest_s * 1000:,.0f} ms{f', {share.given_up:,} given up' if share.given_up else ''}"
        )
    if not outcome.holds:
        say("The limits do NOT hold.")
    elif outcome.served:
        say("None got more than its plan, and who keeps to it got all.")
    else:
        say("None got more than its plan, and some searches were NOT answered: was the store away?")
    say(f"  Look at it: {console_url()}/quotas/?policy=hotel-search-partner")
