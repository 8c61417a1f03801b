"""Messages that ran out of attempts."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, SubjectKind

DEAD_LETTER_REDRIVE = Act("dead_letter.redrive", Role.OPERATOR, "redrive dead letters", about="topic")
DEAD_LETTER_DISCARD = Act("dead_letter.discard", Role.OPERATOR, "discard dead letters", about="topic")
DEAD_LETTER_EDIT = Act("dead_letter.edit", Role.EDITOR, "edit dead letters", about="topic")

FEATURE = Feature(
    name="deadletters",
    offers=("models", "counting", "telling"),
    menu=(
        MenuEntry(
            "dead-letters",
            "Dead letters",
            "outline/alert-triangle",
            "deadletters:list",
            "d",
            "Bus",
            50,
            badge="hbus_console.deadletters.counting:waiting",
            badge_live="dead/menu",
        ),
    ),
    pages=(Mount("dead-letters/", "hbus_console.deadletters.urls"),),
    api=("hbus_console.deadletters.api",),
    acts=(
        DEAD_LETTER_REDRIVE,
        DEAD_LETTER_DISCARD,
        DEAD_LETTER_EDIT,
    ),
    subjects=(
        SubjectKind(
            "dead-letter", "dead letter", address="hbus_console.deadletters.addresses:dead_letter", within="topic"
        ),
    ),
    audit_words={
        "dead_letter.redrive": "redrove the dead letter",
        "dead_letter.discard": "discarded the dead letter",
        "dead_letter.edit": "edited and redrove the dead letter",
    },
    audit_sides={"dead_letter.edit": "hbus_console.deadletters.audited:edits"},
    duties=("hbus_console.deadletters.duties:dead_letter_collector",),
    alerts=("hbus_console.deadletters.alerts:KINDS",),
    concerns=("hbus_console.deadletters.concerns:concerns",),
    live=("hbus_console.deadletters.live:cells",),
    tones={"redriven": "act", "discarded": "act"},
    operations=(
        "hbus_console.deadletters.bulk:REDRIVE",
        "hbus_console.deadletters.bulk:DISCARD",
    ),
)
