"""What of the outbox needs a person: what the bus refused for good."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from django.db.models import Count, Max, Min
from django.urls import reverse

from hbus_console.access.scopes import scopes_q
from hbus_console.outbox.models import OutboxMessage
from hbus_console.ui.concern import MOST_OF_A_KIND, Concern, Look, at, spell
from hbus_console.ui.formats import clock, num


def concerns(look: Look) -> list[Concern]:
    """Messages that the bus refused: the change that wrote them is made, and nobody will hear of it."""
    groups = list(
        OutboxMessage.objects.filter(scopes_q(look.scopes, "topic"), refused_at__isnull=False)
        .values_list("topic")
        .annotate(count=Count("id"), since=Min("refused_at"), why=Max("last_error"))
        .order_by("-count", "topic")[: MOST_OF_A_KIND + 1]
    )
    more = Concern(
        "bad",
        "The bus refused messages of the outbox for further topics",
        "after mending: manage.py outbox retry",
        reverse("topics:list"),
        "See topics",
    )
    return at(60, spell(groups, lambda group: _line(*group), more))


def _line(topic: str, count: int, since: datetime, why: str) -> Concern:
    messages = "a message" if count == 1 else f"{num(count)} messages"
    return Concern(
        "bad",
        f"The bus refused {messages} of the outbox for {topic}",
        f"{why} · since {clock(since)[:5]} · after mending: manage.py outbox retry",
        f"{reverse('topics:list')}?{urlencode({'q': topic})}",
        "Open topic",
    )
