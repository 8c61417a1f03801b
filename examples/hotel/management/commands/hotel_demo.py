"""``manage.py hotel_demo`` (``make demo``): bookings flow, one message dies, a night passes, and partners search."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from django.conf import settings
from django.core.management.base import BaseCommand
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.hotel import demo, feeds, figures, night, proving, searching
from examples.hotel.installation import console_url, installation
from examples.hotel.management.commands import hotel_search
from examples.hotel.seed import seed
from examples.hotel.slots import AT_NIGHT
from hbus_console.access.command_line import command_line_actor
from hbus_console.command_needs import typed
from hbus_console.database import keep_connections
from hbus_console.ui.formats import counted
from hbus_console.wiring import store

#: For how long the partners search, in seconds.
SEARCH_S = 5.0
#: Days of the hotel's time that pass in a second, unless told: three and a half years in half a minute.
SPEED_DAYS = 15.0


class Command(BaseCommand):
    help = "Play a hotel's bookings through the bus and judge the read model that comes out."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--bookings", default="", help="a bookings CSV (default: BOOKINGS, else the simulator)")
        parser.add_argument("--limit", type=int, help="only the first so many bookings")
        pace = parser.add_mutually_exclusive_group()
        pace.add_argument("--speed", type=float, default=SPEED_DAYS, help="days of the hotel's time in a second (15)")
        pace.add_argument("--fast", action="store_true", help="as fast as it goes")
        parser.add_argument("--no-kill", action="store_true", help="do not kill the consumer half-way")
        parser.add_argument("--json", action="store_true", help="print one JSON line")

    def handle(self, *args: Any, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        quiet = options["json"]
        say = self.stderr.write if quiet else self.stdout.write
        feed = feeds.open_feed(feeds.bookings_file(options["bookings"]), options["limit"])
        with installation(say):
            keep_connections()
            actor = command_line_actor()
            if seed(actor):
                say("Teams, topics, subscriptions and jobs are made.")
            say(f"{len(feed.bookings):,} bookings from {feed.source}")
            passed, searched, proof = None, None, None
            drawn: list[figures.Figure] = []
            archived = proving.begin(actor)
            speed = 0 if options["fast"] else options["speed"]
            with _bars(quiet=quiet) as bars:
                outcome = demo.run(feed, speed=speed, kill=not options["no_kill"], progress=bars, stop=stop)
                if not stop.is_set():
                    passed = night.play(
                        actor, timezone.now(), lambda share: bars("night", round(share * 100), 100), stop
                    )
            if not quiet:
                self._tell(outcome)
                self._tell_night(passed)
            if settings.HBUS_QUOTAS and not stop.is_set():
                searching.seed_policies(actor)
                searched = searching.play(feed, SEARCH_S, stop)
                if not quiet:
                    self.stdout.write("")
                    hotel_search.tell(searched, self.stdout.write)
            if archived and not stop.is_set():
                proof = proving.prove(actor, archived, stop)
                if not quiet:
                    self._tell_proof(proof)
                drawn = figures.draw(actor, feed, archived)
                if not quiet:
                    self._tell_figures(drawn)
            store.close()
        holds = (
            outcome.holds
            and passed is not None
            and passed.holds
            and (searched is None or (searched.holds and searched.served))
            and (proof is None or proof.holds)
            and all(figure.equal for figure in drawn)
        )
        if quiet:
            answer = {**msgspec.structs.asdict(outcome), "equal": outcome.comparison.equal, "holds": holds}
            answer["searches"] = searched and {**msgspec.structs.asdict(searched), "holds": searched.holds}
            answer["night"] = passed and {**msgspec.structs.asdict(passed), "holds": passed.holds}
            answer["proof"] = proof and {**msgspec.structs.asdict(proof), "holds": proof.holds}
            answer["figures"] = {figure.name: figure.equal for figure in drawn}
            self.stdout.write(msgspec.json.encode(answer).decode())
        if stop.is_set():
            sys.exit(130)
        if not holds:
            sys.exit(1)

    def _tell_night(self, passed: night.NightOutcome | None) -> None:
        if passed is None:
            return
        say, verdict = self.stdout.write, passed.verdict
        say("")
        say(f"The night from {passed.begin} to {passed.end} has passed in {passed.took_s:.1f} s, on a simulated clock:")
        for line in passed.happened:
            say(f"  {line}")
        say(f"  {verdict.demanded:,} slots demanded, {passed.decided:,} decided just now and the rest before:")
        say(f"  {verdict.done:,} done, {sum(verdict.explained.values()):,} not, each with its reason:")
        for reason, count in verdict.explained.items():
            say(f"    {count:,} {reason}")
        say(f"  {verdict.faults['doubled'] + verdict.faults['effect_doubled']} done twice")
        say(f"  {', '.join(f'{count} of {hotel}' for hotel, count in passed.invoices.items())}: invoices of the month")
        say(f"  {passed.closes} closes were published, and heard {passed.heard} times of {passed.to_hear}")
        for difference in verdict.differences:
            say(f"  {difference}")
        say("Every slot is accounted for." if passed.holds else "The night does NOT hold.")
        say(f"  Look at it: {console_url()}/jobs/?q={AT_NIGHT}")

    def _tell_proof(self, proof: proving.Proof) -> None:
        say = self.stdout.write
        say("")
        topics = f"{proof.topics} topics"
        if proof.judged < proof.topics:
            topics = f"{proof.judged} of {topics}, the others not judged yet,"
        say(
            f"Archived and audited in {proof.took_s:.1f} s: {proof.published:,} messages of {topics} were"
            f" published, {proof.archived:,} are in the archive."
        )
        for line in proof.says:
            say(f"  {line}")
        say(
            f"  {counted(proof.retried, 'attempt')} failed and came again; {counted(proof.interrupted, 'message')} had"
            f" been in the hands of a consumer that was killed; {counted(proof.dead, 'message')} died."
        )
        if proof.clean:
            say("The audit is clean.")
        elif proof.holds:
            say("The audit is open: a killed process told nothing of some, which the keeper finds in a few minutes.")
        else:
            say(f"The audit is NOT clean: {proof.verdict}.")
        say(f"  Look at it: {console_url()}/audits/{proof.audit}/")
        say(f"  And at its charts: {console_url()}/topics/booking.created/history/")

    def _tell_figures(self, drawn: list[figures.Figure]) -> None:
        say = self.stdout.write
        for figure in drawn:
            if figure.equal:
                say(f"Equal: {figure.name}, {len(figure.rows)} lines from the archive, as the bookings say.")
            else:
                say(f"NOT equal: {figure.name}. {figure.error}")
            say(f"  Look at it: {console_url()}/archive/query/?saved={figure.name}")

    def _tell(self, outcome: demo.Outcome) -> None:
        say, comparison = self.stdout.write, outcome.comparison
        say(
            f"{outcome.events:,} events: {outcome.published:,} published and {outcome.deduplicated:,} known before, in"
            f" {outcome.publish_s:.1f} s; the rest took {outcome.settle_s:.1f} s."
        )
        say("All settled." if outcome.settled else f"NOT settled: {outcome.unsettled:,} messages are still open.")
        if comparison.equal:
            say(f"Equal: {comparison.room_nights:,} room-nights in {comparison.nights:,} nights, as the bookings say.")
        else:
            say(f"NOT equal: {comparison.different:,} of {comparison.nights:,} nights differ, first:")
            for one in comparison.differences:
                say(f"  {one.hotel}, {one.night}: {one.expected} expected, {one.found} found")
        for message_id in outcome.unexpected:
            say(f"Unexpected dead letter: {message_id}")
        for doomed in outcome.poison:
            say("")
            say(f"One message is dead, as it should be: {doomed.message_id}")
            say(f"  A room of category {doomed.room} fell free, and the partner's catalogue has no such category.")
            mend = typed(f".venv/bin/python manage.py hotel_partner add-room {shlex.quote(doomed.room)}")
            start = typed("make run")
            say(f"  1. Look at it:       {console_url()}/dead-letters/   (if nobody answers there: `{start}`)")
            say(f"  2. Mend the cause:   {mend}")
            say("  3. Redrive it there, and find your own act in the audit log.")


class _Bars:
    """Three bars: published, settled, and how much of the night has passed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks = {what: progress.add_task(what, total=None) for what in ("published", "settled", "night")}

    def __call__(self, what: str, done: int, of: int) -> None:
        self._progress.update(self._tasks[what], completed=done, total=of)


@contextmanager
def _bars(*, quiet: bool) -> Iterator[_Bars]:
    """Bars on standard error; none when quiet or when it is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # By its file: what jobs print is caught on its way to whatever sys.stderr is.
    console = Console(file=sys.stderr)
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal) as progress:
        yield _Bars(progress)
