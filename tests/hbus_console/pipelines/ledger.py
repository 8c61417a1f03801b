"""Facts that are booked as the keeper books them, and what the lake has of them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.parquet as pq
from django.db import transaction

from engine.bus.facts import Fact, batches
from engine.core.clock import ManualClock
from engine.pipeline.lake.state import Kind
from engine.pipeline.source.planning import Why
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.router import LEDGER
from hbus_console.messages.retention import LedgerRetention
from hbus_console.pipelines.ledger_archiving import LedgerArchived, LedgerArchiver
from hbus_console.wiring.lake import lake
from tests.hbus_console.pipelines.conftest import TOPIC

AT = 1_795_867_200_000
OTHER = "payment.taken"


def book(*facts: Fact) -> None:
    """As the keeper would."""
    booking = Booking()
    booking.add(batches(facts))
    with transaction.atomic(using=LEDGER):
        booking.write()


def published(number: int, topic: str = TOPIC, kind: str = "published", **more: object) -> Fact:
    told: dict[str, object] = {
        "message_id": f"m{number}", "source": "/t", "type": "t", "key": f"H-{number % 3}", "size": 9,
        "position": "" if kind == "delayed" else f"{AT + number}-0", **more,
    }  # fmt: skip
    return Fact(kind, AT + number, topic, **told)  # type: ignore[arg-type]


def settled(number: int, topic: str = TOPIC, at_ms: int = 0, **more: object) -> Fact:
    told: dict[str, object] = {"message_id": f"m{number}", "source": "/t", "subscription": "billing", **more}
    return Fact("settled", at_ms or AT + number + 5, topic, **told)  # type: ignore[arg-type]


def run(*topics: str, **more: Callable[[], None]) -> LedgerArchived:
    return LedgerArchiver(lake(), [TOPIC, OTHER], **more).run(topics or [TOPIC])


def rows(kind: Kind = Kind.PUBLISHED, topic: str = TOPIC) -> list[dict[str, object]]:
    """Those in the lake, by their numbers."""
    files = lake().state().files_of(topic, kind=kind)
    found = [row for path in lake().paths(files) for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: int(row["row_id"]))


def ids(kind: Kind = Kind.PUBLISHED, topic: str = TOPIC) -> list[object]:
    return [row["message_id"] for row in rows(kind, topic)]


def losses(outcome: LedgerArchived) -> list[tuple[str, str, Why, int | None]]:
    return [(topic, loss.log, loss.why, loss.messages) for topic, found in outcome.losses.items() for loss in found]


def trim(most: int) -> None:
    LedgerRetention(most, clock=ManualClock(AT)).tick()
