"""Ping addresses: what comes there is booked, within a rate; who may change the job sees the address and renews it."""

from __future__ import annotations

from contextlib import suppress

import structlog
from django.db import DatabaseError, transaction

from engine.core.clock import to_datetime
from engine.core.errors import BadInput, NotThere, Unavailable
from engine.core.facts import FactBatch
from hbus_console import checks
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.database import AWAY, is_away
from hbus_console.jobs.feature import JOB_EDIT
from hbus_console.jobs.judge import asked, database_time
from hbus_console.jobs.models import Job, JobRun, PingAddress
from hbus_console.jobs.pings.booking import PingBooking
from hbus_console.jobs.pings.code import CODE, new_code
from hbus_console.jobs.pings.log import add_to_log
from hbus_console.jobs.pings.ping import Ping, PingWord, TooManyPings
from hbus_console.jobs.services.jobs import Now, job
from hbus_console.wiring import fact_log

#: Pings of one address in a minute; as many may come at once.
RATE = 120
_EACH_US, _MINUTE_US = 60_000_000 // RATE, 60_000_000
#: That pings were refused is noted once in so long.
_NOTED_US = 10_000_000
LOG_LOST = "what it sent along is not in its log: the database of logs did not take it"

_log = structlog.get_logger(__name__)


def receive(code: str, ping: Ping, *, now_s: Now = database_time) -> JobRun:
    """Book one ping; the run that it belongs to.

    Raises :class:`NotThere` for a code of no job, which leaves nothing, :class:`TooManyPings`, and ``Unavailable``: it
    is to be sent again then.
    """
    with asked():
        # Before anything is locked: strangers wait for nobody, and nobody for them.
        if not CODE.fullmatch(code) or not PingAddress.objects.filter(code=code).exists():
            raise _unknown()
        with transaction.atomic():
            run, booking, wait_us = _booked(code, ping, round(now_s() * 1_000_000))
    if run is None:
        raise TooManyPings(max(1, -(-wait_us // 1_000_000)), RATE)
    _keep_log(run, booking)
    _tell(booking.facts)
    return run


def address_of(actor: Actor, name: str) -> PingAddress:
    """Where a job is pinged; its code is a secret of who may change the job.

    Raises ``Forbidden``, :class:`NotThere`, and :class:`BadInput` for a job that hbus does itself.
    """
    require(actor, JOB_EDIT, name)
    return _address(job(name))


@transaction.atomic
def renew_address(actor: Actor, name: str, reason: str) -> PingAddress:
    """Give a job another ping address; the one before leads nowhere from now on."""
    require(actor, JOB_EDIT, name)
    row = job(name, lock=True)
    reason = checks.reason(reason)
    found = _address(row)
    found.code, found.renewed_at = new_code(), to_datetime(round(database_time() * 1000))
    found.save(update_fields=["code", "renewed_at"])
    record(actor, "job.renew_ping", row.subject, reason=reason, after={"pinged_at": "a new address"})
    return found


def _booked(code: str, ping: Ping, now_us: int) -> tuple[JobRun | None, PingBooking, int]:
    """In a transaction. Without a run nothing was booked, for so many microseconds more."""
    # The job first, as whoever changes or deletes it: its pings wait for each other here.
    row = Job.objects.select_related("team").select_for_update(of=("self",)).filter(ping__code=code).first()
    if row is None:
        raise _unknown()
    address, booking = PingAddress.objects.get(job=row), PingBooking(row, ping, now_us)
    full_us = max(address.full_us, now_us) + _EACH_US
    if full_us - now_us > _MINUTE_US:
        if address.refused_us is None or now_us - address.refused_us > _NOTED_US:
            PingAddress.objects.filter(pk=address.pk).update(refused_us=now_us)
        return None, booking, full_us - now_us - _MINUTE_US
    run = booking.book()
    PingAddress.objects.filter(pk=address.pk).update(full_us=full_us, heard_us=now_us, heard=ping.says)
    return run, booking, 0


def _keep_log(run: JobRun, booking: PingBooking) -> None:
    """The run counts, whatever becomes of its log; of a ping that is nothing but a log that is all there is."""
    try:
        add_to_log(run.pk, run.attempt, booking.line + booking.ping.text, booking.now_us)
    except DatabaseError as error:
        if not is_away(error):
            raise
        if booking.ping.word is PingWord.LOG:
            raise Unavailable("The database of logs does not answer.", remedy="Send the log again.") from error
        _log.warning("what a ping sent along is lost", run=run.pk, job=run.job, bytes=len(booking.ping.body))
        # The run is told of: it is not to be sent again for this.
        with suppress(*AWAY):
            JobRun.objects.filter(pk=run.pk).update(summary=LOG_LOST)


def _tell(facts: list[FactBatch]) -> None:
    if facts:
        fact_log.emitter().emit(facts)


def _address(row: Job) -> PingAddress:
    found = PingAddress.objects.filter(job=row).first()
    if found is None:
        raise BadInput(
            f"{row.name} has no ping address: hbus does it itself.",
            remedy="Make a job of the kind elsewhere.",
            field="job",
        )
    return found


def _unknown() -> NotThere:
    return NotThere("There is no such ping address.", remedy="Copy it from the page of the job.", field="code")
