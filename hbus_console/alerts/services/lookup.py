"""Finding what acts are done to, within what the actor may see."""

from __future__ import annotations

from django.db.models import QuerySet

from engine.core.errors import NotThere
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, require, visible_scopes
from hbus_console.access.scopes import scopes_q
from hbus_console.alerts.models import Alert, Channel, Rule, Silence
from hbus_console.alerts.standing import can_concern


def alerts(actor: Actor) -> QuerySet[Alert]:
    """The alerts on what ``actor`` may see."""
    return Alert.objects.filter(scopes_q(visible_scopes(actor), "namespace"))


def alert(actor: Actor, number: int) -> Alert:
    """Raises :class:`NotThere`."""
    require(actor, VIEW, SOMEWHERE)
    found = alerts(actor).select_related("rule").filter(pk=number).first()
    if found is None:
        raise NotThere(f"There is no alert {number}.", remedy="Look for it in the list of alerts.", field="alert")
    return found


def sees(actor: Actor, rule: Rule) -> bool:
    """Whether the rule can concern anything that ``actor`` may see."""
    return can_concern(visible_scopes(actor), rule.scope)


def rules(actor: Actor) -> list[Rule]:
    """The rules that can concern what ``actor`` may see, by name."""
    rows = Rule.objects.select_related("team").prefetch_related("channels")
    return [rule for rule in rows if sees(actor, rule)]


def rule(actor: Actor, number: int, *, lock: bool = False) -> Rule:
    """Raises :class:`NotThere`."""
    require(actor, VIEW, SOMEWHERE)
    rows = Rule.objects.select_for_update(of=("self",)) if lock else Rule.objects.all()
    found = rows.select_related("team").filter(pk=number).first()
    if found is None or not sees(actor, found):
        raise NotThere(f"There is no alert rule {number}.", remedy="List the rules.", field="rule")
    return found


def channel(actor: Actor, number: int, *, lock: bool = False) -> Channel:
    """Raises :class:`NotThere`."""
    require(actor, VIEW, SOMEWHERE)
    rows = Channel.objects.select_for_update() if lock else Channel.objects.all()
    found = rows.filter(pk=number).first()
    if found is None:
        raise NotThere(f"There is no channel {number}.", remedy="List the channels.", field="channel")
    return found


def silence_of(actor: Actor, number: int) -> Silence:
    """Raises :class:`NotThere`."""
    found = (
        Silence.objects.filter(scopes_q(visible_scopes(actor), "namespace"), pk=number).select_related("rule").first()
    )
    if found is None:
        raise NotThere(f"There is no silence {number}.", remedy="List those of the alerts.", field="silence")
    return found
