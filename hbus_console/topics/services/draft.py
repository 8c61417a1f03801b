"""The settings of a topic, each said once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from engine.bus.filters.naming import QUOTED
from engine.bus.partitions import DEFAULT_PARTITIONS, MOST_PARTITIONS
from hbus_console.drafts.setting import Choice, Clean, Flag, Lines, Owner, Setting, Text, Whole
from hbus_console.drafts.settings import Settings
from hbus_console.faults import Unfit
from hbus_console.schemas.modes import MODES
from hbus_console.topics.feature import TOPIC_EDIT, TOPIC_GOVERN
from hbus_console.topics.masking import check_fields
from hbus_console.topics.models import Topic
from hbus_console.topics.services import topic_rules
from hbus_console.ui.forms import Form, text
from hbus_console.wiring import bus

#: The two parts of a topic's pages: how it works, and who answers, who sees and what is kept.
WORKINGS, GOVERNANCE = "workings", "governance"
CLASSES = {
    "public": "anybody may know it",
    "internal": "for people who work here",
    "confidential": "for those who need it",
    "personal": "about a person: says which fields are masked",
}
ORDERINGS = {"none": "as they come, in parallel", "key": "messages of one key one after the other"}
#: Ten years.
MAX_RETENTION_HOURS = 87_600
MAX_WINDOW_S = 30 * 86_400
MAX_TTL_S = 730 * 86_400


#: What is typed for fields, with commas, blanks and new lines between them, but for those in quotes.
_TYPED = re.compile(rf"(?:{QUOTED}|[^\s,])+")


@dataclass(frozen=True)
class MaskedFields(Setting):
    """Dotted paths into the payload; its field on a page also asks whether there is nothing to mask."""

    widget: ClassVar[str] = "topics/_masked.html"

    def check(self, value: Any, clean: Clean) -> list[str]:
        if not isinstance(value, (list, tuple)):
            raise Unfit(self.name, "is not a list.", remedy="Send a list of paths.")
        return check_fields(value)

    def typed(self, form: Form) -> list[str]:
        return sorted(set(_TYPED.findall(text(form, self.name))))

    def shown(self, value: Any) -> str:
        return "\n".join(value)


@dataclass(frozen=True)
class Carrier(Text):
    """The name of a transport; empty: the installation's default."""

    widget: ClassVar[str] = "topics/_carrier.html"

    @property
    def options(self) -> list[str]:
        """What may carry a topic."""
        return list(bus.carriers())


def _message_sizes(clean: Clean) -> tuple[int, int]:
    return 128, topic_rules.capabilities(clean["transport"]).max_bytes


def _windows(clean: Clean) -> tuple[int, int]:
    # Without a window a repeated key would be stored again in silence, so 0 is for transports that know no keys.
    return (60, MAX_WINDOW_S) if topic_rules.capabilities(clean["transport"]).idempotent_publish else (0, 0)


def _partitions(clean: Clean) -> int:
    return DEFAULT_PARTITIONS if clean["ordering"] == "key" else 1


def _priorities(clean: Clean) -> bool:
    return topic_rules.capabilities(clean["transport"]).priority and clean["ordering"] == "none"


@dataclass(frozen=True)
class TopicDraft:
    """A topic as somebody wants it; ``owner`` names a team.

    Owner, class and masking decide who answers and who sees, retention, compatibility and transport what others may
    rely on: that is governance.
    """

    name: str
    owner: Annotated[str, Owner(act=TOPIC_GOVERN, part=GOVERNANCE)]
    description: Annotated[
        str,
        Lines(2_000, label="What it carries", placeholder="A guest has booked a stay.", act=TOPIC_EDIT, part=WORKINGS),
    ] = ""
    classification: Annotated[str, Choice(CLASSES, label="Class", act=TOPIC_GOVERN, part=GOVERNANCE)] = "internal"
    #: Dotted paths: ``guest.email``, ``guests[].name``.
    masked_fields: Annotated[
        tuple[str, ...],
        MaskedFields(
            label="Masked fields, one a line",
            help='Paths into the payload, odd names in quotes: guest."first name". Shown only to who may reveal them; '
            "each reveal is audited, and so is each question that a filter asks about them.",
            act=TOPIC_GOVERN,
            part=GOVERNANCE,
        ),
    ] = ()
    #: For personal payloads without masked fields: somebody has looked.
    nothing_to_mask: Annotated[bool, Flag(act=TOPIC_GOVERN)] = False
    compatibility: Annotated[
        str, Choice(MODES, label="What may follow a schema", act=TOPIC_GOVERN, part=GOVERNANCE)
    ] = "backward"
    ordering: Annotated[str, Choice(ORDERINGS, label="Order", act=TOPIC_EDIT, part=WORKINGS)] = "none"
    #: ``None``: 8 where messages are ordered by key, else 1.
    partitions: Annotated[
        int | None,
        Whole(
            1,
            MOST_PARTITIONS,
            label="Partitions",
            help="With order by key: how many consumers can share a subscription. 8 unless you say; more later only "
            "while the topic is empty.",
            act=TOPIC_EDIT,
            part=WORKINGS,
            unless_said=_partitions,
            rare=True,
        ),
    ] = None
    #: ``None``: whatever ordering and transport allow.
    priorities: Annotated[
        bool | None,
        Flag(
            "Messages may jump the queue",
            label="Priorities",
            help="Not together with order by key.",
            act=TOPIC_EDIT,
            part=WORKINGS,
            unless_said=_priorities,
        ),
    ] = None
    retention_hours: Annotated[
        int,
        Whole(
            1,
            MAX_RETENTION_HOURS,
            "hours",
            label="Kept, in hours",
            help="What a subscription has not settled is never trimmed in silence.",
            act=TOPIC_GOVERN,
            part=GOVERNANCE,
        ),
    ] = 168
    retention_messages: Annotated[
        int,
        Whole(
            0,
            10**12,
            label="Kept at most, in messages",
            help="0: no bound by number.",
            act=TOPIC_GOVERN,
            part=GOVERNANCE,
        ),
    ] = 0
    max_bytes: Annotated[
        int,
        Whole(unit="bytes", bounds=_message_sizes, label="Largest message, in bytes", act=TOPIC_EDIT, part=WORKINGS),
    ] = 1024 * 1024
    ttl_s: Annotated[
        int,
        Whole(
            0,
            MAX_TTL_S,
            "seconds",
            label="Wanted for, in seconds",
            help="0: for ever, unless its producer says otherwise.",
            act=TOPIC_EDIT,
            part=WORKINGS,
        ),
    ] = 0
    idempotency_window_s: Annotated[
        int,
        Whole(
            unit="seconds",
            bounds=_windows,
            label="Repeats recognised for, in seconds",
            help="How long an idempotency key is remembered.",
            act=TOPIC_EDIT,
            part=WORKINGS,
        ),
    ] = 24 * 3600
    transport: Annotated[
        str,
        Carrier(
            32,
            label="Carried by",
            help="A topic in use is moved instead. One ordered by key has to stand still: all settled, nobody "
            "publishing. What is left there is removed.",
            act=TOPIC_GOVERN,
            part=GOVERNANCE,
        ),
    ] = ""
    #: The first version of its JSON Schema, if there is one yet.
    schema: dict[str, Any] | None = None


SETTINGS = Settings(TopicDraft)


def snapshot(row: Topic) -> dict[str, Any]:
    """A topic's settings as the audit log and the API show them."""
    return {**SETTINGS.snapshot(row), "paused": row.paused, **({"leaving": row.leaving} if row.leaving else {})}


def checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a topic but its owner, cleaned; raises :class:`BadInput` at the first that does not fit."""
    clean = SETTINGS.checked(values)
    topic_rules.refuse_contradictions(clean)
    return clean


def settings_of(part: str) -> list[str]:
    """What one of the two forms asks for."""
    return [name for name in SETTINGS.changeable if (SETTINGS.act_of(name) is TOPIC_GOVERN) is (part == GOVERNANCE)]
