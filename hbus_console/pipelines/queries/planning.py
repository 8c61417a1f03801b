"""What a query of one person reads: of which topics, and what is hidden of each, as on every page."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from engine.core.errors import BadInput, NotThere
from engine.pipeline.lake.lake import Lake
from engine.pipeline.lake.state import LakeFile, LakeState
from engine.pipeline.query.spec import HidingRules, QueryFile
from hbus_console.access.permissions import Actor, allows, require
from hbus_console.messages.feature import PAYLOAD_READ, PAYLOAD_REVEAL
from hbus_console.pipelines.feature import QUERY_RUN
from hbus_console.topics.models import Topic
from hbus_console.topics.payloads import MaskingRules
from hbus_console.ui.formats import epoch_ms

#: Topics that one may name.
MOST_NAMED = 1_000


class ShownTopic(msgspec.Struct, frozen=True):
    """One topic, as one person may read it."""

    name: str
    #: ``None``: nothing is, but for what is older than ``since_ms``.
    hides: HidingRules | None
    #: What was stored before lay in another topic of the name, and is hidden whole, epoch milliseconds.
    since_ms: int
    #: Something of it is shown that pages mask.
    revealed: bool = False
    #: How many keys it was made to forget: what was answered before each may still have that one.
    erased: int = 0

    def file(self, lake: Lake, file: LakeFile) -> QueryFile:
        """The file as it is to be read."""
        path = str(lake.root / file.path)
        if self.hides is None and file.first_ms >= self.since_ms:
            return QueryFile(path, file.kind)
        return QueryFile(path, file.kind, self.hides or HidingRules(), self.since_ms)


def shown_topics(actor: Actor, state: LakeState, named: Sequence[str], *, reveal: bool) -> list[ShownTopic]:
    """Of these topics of the lake, or of all that ``actor`` may query. Raises ``Forbidden``, :class:`NotThere` for one
    that the lake has nothing of, and :class:`BadInput`."""
    if len(named) > MOST_NAMED:
        raise BadInput(f"{len(named):,} topics are named.", remedy=f"Name {MOST_NAMED:,} at most.", field="topics")
    if reveal and not named:
        raise BadInput("Which topics are to be revealed?", remedy="Name them.", field="topics")
    for name in named:
        require(actor, QUERY_RUN, name)
        require(actor, PAYLOAD_READ, name)
        if name not in state.topics:
            raise NotThere(f"The lake has nothing of {name}.", remedy="Is it archived?", field="topics")
    names = sorted(set(named)) or sorted(
        name for name in state.topics if allows(actor, QUERY_RUN, name) and allows(actor, PAYLOAD_READ, name)
    )
    if not names:
        raise BadInput("The lake has nothing that you may query.", remedy="Have a topic archived.", field="topics")
    known = Topic.objects.in_bulk(names, field_name="name")
    return [_shown(actor, name, known.get(name), state, reveal) for name in names]


def _shown(actor: Actor, name: str, topic: Topic | None, state: LakeState, reveal: bool) -> ShownTopic:
    rules = MaskingRules.of(topic)
    since_ms = epoch_ms(topic.created_at) if topic is not None else 0
    erased = len(state.held(name).erased)
    if reveal:
        older = any(file.topic == name and file.first_ms < since_ms for file in state.files.values())
        if rules.hide_something or older:
            require(actor, PAYLOAD_REVEAL, name)
            return ShownTopic(name, None, 0, revealed=True, erased=erased)
    hides = HidingRules(rules.masked_fields, rules.classification, rules.opaque_hidden)
    return ShownTopic(name, hides if rules.hide_something else None, since_ms, erased=erased)


def digest_of(topics: Sequence[ShownTopic]) -> str:
    """What is shown of them: with another one an answer is not to be read any more."""
    return hashlib.sha256(msgspec.json.encode(topics)).hexdigest()


def files_of(lake: Lake, state: LakeState, topics: Sequence[ShownTopic], from_day: str, to_day: str) -> list[QueryFile]:
    """All that counts of these days; empty: from the first, and to the last."""
    shown = {topic.name: topic for topic in topics}
    return [
        shown[file.topic].file(lake, file)
        for file in state.files.values()
        if file.topic in shown and from_day <= file.date <= (to_day or "~")
    ]
