"""Lamps: switching them, and what the console shows of them."""

from __future__ import annotations

from django.db import transaction
from django.urls import reverse

from engine.core.clock import SystemClock
from engine.core.errors import NotThere
from engine.core.facts import FactBatch
from engine.core.subject import Subject
from hbus_console import checks
from hbus_console.access.permissions import Actor, require, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.audit.services import record
from hbus_console.ui.concern import Concern, Look
from hbus_console.ui.finding import MOST, Hit, HitGroup, group
from hbus_console.ui.live import LiveCells
from hbus_console.wiring import fact_log, store
from tests.toy.feature import LAMP_SWITCH
from tests.toy.models import Lamp


def subject(lamp: Lamp) -> Subject:
    return Subject("lamp", lamp.street, lamp.name)


def address(about: Subject) -> str:
    return f"{reverse('lamps:list')}#{about.name}"


@transaction.atomic
def switch(actor: Actor, street: str, name: str, on: bool, reason: str) -> Lamp:
    """Switch a lamp, audited, and tell it as a fact."""
    require(actor, LAMP_SWITCH, street)
    lamp = Lamp.objects.select_for_update().filter(street=street, name=name).first()
    if lamp is None:
        raise NotThere(f"There is no lamp {name!r} in {street!r}.", remedy="Look for it in the list.", field="name")
    why = checks.reason(reason)
    before, lamp.burning = lamp.burning, on
    lamp.save()
    about = subject(lamp)
    record(actor, "lamp.switch", about, reason=why, before={"burning": before}, after={"burning": on})
    fact = FactBatch("lamp_switched", SystemClock().now_ms(), about, node=store.node_name(), detail=why)
    transaction.on_commit(lambda: fact_log.emitter().emit([fact]))
    return lamp


def burning_count(who: Actor) -> int:
    return Lamp.objects.filter(scopes_q(visible_scopes(who), "street"), burning=True).count()


def concerns(look: Look) -> list[Concern]:
    rows = Lamp.objects.filter(scopes_q(look.scopes, "street"), burning=True)
    return [
        Concern("warn", f"The lamp {row.name} of {row.street} burns", "by day", address(subject(row)), "Open")
        for row in rows
    ]


def find(who: Actor, text: str) -> list[HitGroup]:
    rows = Lamp.objects.filter(scopes_q(visible_scopes(who), "street"), name__icontains=text)[: MOST + 1]
    return [group("Lamps", (Hit(row.name, row.street, address(subject(row))) for row in rows))]


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    return LiveCells(texts={"lamps": str(Lamp.objects.filter(scopes_q(scopes, "street"), burning=True).count())})
