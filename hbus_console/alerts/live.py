"""What moves: ``alerts``, how many wait for a person; its mark is told when anything on the pages of alerts changed."""

from __future__ import annotations

from collections.abc import Hashable

from hbus_console.access.scopes import scopes_q
from hbus_console.alerts import standing
from hbus_console.alerts.models import Alert, Channel, Evaluation, Notification, Rule, Silence
from hbus_console.ui import formats
from hbus_console.ui.live import LiveCells

#: Open alerts, silences, messages, and alerts that began last: so many of each are looked at.
MOST = 200
_TOLD = ("pk", "state", "value", "peak", "acknowledged_ms", "fired_ms", "better_ms", "resolved_ms", "measured_ms")


def cells(now_ms: int, scopes: tuple[str, ...]) -> LiveCells:
    """The alerts that fire in ``scopes``."""
    return told(standing.count(scopes, now_ms), _token(scopes, now_ms))


def told(count: int, token: Hashable = None) -> LiveCells:
    """A count in words."""
    return LiveCells(texts={"alerts": formats.num(count)}, marks={"alerts": (count, token)})


def _token(scopes: tuple[str, ...], now_ms: int) -> Hashable:
    """The open alerts and the newest, what was sent of them, the silences that hold now, the rules with whom they tell,
    and when these were last evaluated."""
    seen = scopes_q(scopes, "namespace")
    alerts = Alert.objects.filter(seen).order_by("-pk").values_list(*_TOLD)
    silences = Silence.objects.filter(seen, until_ms__gt=now_ms)
    # Of alerts that one may see: a round makes many messages, most of them about others' alerts.
    sent = Notification.objects.filter(scopes_q(scopes, "alerts__namespace")).distinct().order_by("-pk")
    rules = Rule.objects.order_by("pk").values_list("pk", "revision", "scope")
    return (
        tuple(alerts.filter(state__in=(Alert.State.FIRING, Alert.State.PENDING))[:MOST]),
        tuple(alerts[:MOST]),
        tuple(silences.order_by("pk").values_list("pk", "until_ms")[:MOST]),
        tuple(sent.values_list("pk", "state", "attempts")[:MOST]),
        tuple((pk, revision) for pk, revision, scope in rules if standing.can_concern(scopes, scope)),
        tuple(Channel.objects.order_by("pk").values_list("pk", "revision")),
        Evaluation.objects.filter(pk=1).values_list("at_ms", flat=True).first(),
    )
