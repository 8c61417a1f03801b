"""What a replay meets where it goes: who would not take the copies now, what does not fit there, and what it shows."""

from __future__ import annotations

from engine.bus.errors import PublishRefused
from engine.bus.message import Message
from engine.core.errors import HbusError
from engine.core.strict_json import NotJson
from hbus_console.access.permissions import Actor, allows
from hbus_console.messages.feature import PAYLOAD_REVEAL
from hbus_console.outbox.services import check
from hbus_console.replays import spec as specs
from hbus_console.replays.spec import Selection
from hbus_console.schemas.checking import check_of
from hbus_console.schemas.models import SchemaVersion
from hbus_console.subscriptions.holding import holds
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.ui.formats import num

#: Subscriptions of another topic that are told by name.
_NAMED = 3


class ReplayTarget:
    """A subscription of the topic, or another topic."""

    def __init__(self, actor: Actor, wanted: Selection) -> None:
        self._actor, self._wanted = actor, wanted
        rules = MaskingRules.of(Topic.objects.filter(name=wanted.topic).first())
        # A schema that somebody wrote for it would tell, message by message, what is masked.
        tells = not rules.hide_something or allows(actor, PAYLOAD_REVEAL, wanted.topic)
        row = _schema_of(wanted.into_topic) if wanted.into_topic else None
        check = check_of(row) if row is not None else None
        self._check = check if tells else None
        #: The schema that payloads are compared with, of which ``actor`` is told; empty: none.
        self.compares = f"{wanted.into_topic}, version {row.version}" if row is not None and tells else ""
        #: There is a schema, and nobody may be told what it says of payloads that are masked.
        self._unchecked = check is not None and not tells

    @property
    def checks(self) -> bool:
        """Whether payloads are compared with a schema there, and ``actor`` is told of it."""
        return self._check is not None

    def problem(self, message: Message) -> str:
        """Why a publish there would refuse the payload; empty: it would not. Of the same topic it was taken once.

        Nothing is said to who may not see what the topic masks.
        """
        if self._check is None:
            return ""
        try:
            found = self._check.problem(message.json())
        except NotJson:
            return ""
        return f"it does not fit the schema of {self._wanted.into_topic}, at {found[0] or 'its root'}" if found else ""

    def refusal(self, copy: Message) -> str:
        """Why the outbox would not take the copy, which is larger than its original; empty: it would.

        Raises ``PublishRefused`` where its topic takes none at all.
        """
        topic = self._wanted.into_topic or self._wanted.topic
        try:
            check(topic, copy)
        except PublishRefused as error:
            if error.field != "payload":
                # No owner, or no replicas: nothing is wrong with any one of them.
                raise
            # Without its size, so that those of one cause are counted together.
            return f"it is larger than {topic} takes"
        return ""

    def warnings(self) -> list[str]:
        """What whoever starts it should know of the place."""
        return [*self._shown(), *self._not_checked(), *self._held(), *self._repeated()]

    def _not_checked(self) -> list[str]:
        if not self._unchecked:
            return []
        return [
            f"The copies are not checked against the schema of {self._wanted.into_topic}: what is said of each would"
            f" tell what {self._wanted.topic} masks. Of who may reveal it there, only those that fit are copied."
        ]

    def _shown(self) -> list[str]:
        try:
            shows = specs.require_still(self._actor, self._wanted)
            older = shows and specs.shows_older(self._actor, self._wanted)
        except HbusError as error:
            return [f"It would be refused: {error.what}"]
        if not shows:
            return []
        if older:
            return [
                f"The archive has messages that are older than {self._wanted.topic} and may have been masked:"
                " copies show them as it masks now. The audit log will say that you revealed them."
            ]
        where = f"{self._wanted.into_topic} masks less, or sends out"
        if self._wanted.into_group:
            where = f"{self._wanted.into_group} is a webhook, which is sent them whole"
        return [
            f"The copies show what {self._wanted.topic} masks: {where}. The audit log will say that you revealed it."
        ]

    def _held(self) -> list[str]:
        topic = self._wanted.into_topic or self._wanted.topic
        groups = [self._wanted.into_group] if self._wanted.into_group else self._groups()
        found = holds((topic, group) for group in groups)
        said = [f"The copies will wait {hold.words}." for hold in found.values()]
        more = len(said) - _NAMED
        return said if more <= 0 else [*said[:_NAMED], f"Likewise for {num(more)} more of its subscriptions."]

    def _groups(self) -> list[str]:
        rows = Subscription.objects.filter(topic__name=self._wanted.into_topic)
        return list(rows.order_by("group").values_list("group", flat=True))

    def _repeated(self) -> list[str]:
        group = self._wanted.into_group
        if not group:
            return []
        row = Subscription.objects.filter(topic__name=self._wanted.topic, group=group).first()
        if row is None:
            return []
        keeps = "keeps an inbox, but copies" if row.transactional else "does not know them again: copies"
        return [f"{group} {keeps} have new ids, so what was handled before is done again."]


def _schema_of(topic: str) -> SchemaVersion | None:
    return SchemaVersion.objects.filter(topic__name=topic).order_by("-version").first()
