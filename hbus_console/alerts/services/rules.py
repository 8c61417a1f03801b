"""Rules: made, changed, deleted and tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from django.db import transaction

from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, Conflict
from hbus_console import checks
from hbus_console.access.permissions import GLOBAL, Actor, require
from hbus_console.access.scopes import valid_scope
from hbus_console.alerts import judge
from hbus_console.alerts.feature import ALERT_EDIT
from hbus_console.alerts.kinds import AlertKind, kinds
from hbus_console.alerts.models import Alert, Channel, Rule
from hbus_console.alerts.services import lookup, trying
from hbus_console.alerts.services.trying import Tried
from hbus_console.alerts.targets import PATTERN_LIMIT
from hbus_console.audit.services import record
from hbus_console.teams.services import owner as owner_named

DAY_S = 24 * 3600
#: A default window for kinds that are counted over one.
WINDOW_S = 300


@dataclass(frozen=True)
class RuleDraft:
    """A rule as somebody wants it, in the words of the API; empty strings do not narrow.

    ``topics`` is a scope of namespaces, ``group`` a name or a pattern on names in there, ``owner`` names a team,
    ``channels`` are names.
    """

    name: str
    kind: str
    threshold: float
    topics: str = GLOBAL
    group: str = ""
    owner: str = ""
    window_s: int | None = None
    for_s: int = 0
    clear_below: float | None = None
    clear_s: int = 60
    severity: str = "warning"
    advice: str = ""
    enabled: bool = True
    channels: tuple[str, ...] = ()


#: What a row calls by another name than a draft.
_STORED = {"topics": "scope", "group": "pattern"}
#: What can be changed later: everything but the kind.
CHANGES = tuple(name for name in RuleDraft.__dataclass_fields__ if name != "kind")


def create_rule(actor: Actor, draft: RuleDraft, reason: str = "") -> Rule:
    """Make a rule. Raises ``Forbidden`` and :class:`BadInput` naming the field."""
    made, channels = checked(draft)
    require(actor, ALERT_EDIT, made.scope)
    reason = checks.reason(reason, required=False)
    with transaction.atomic():
        _refuse_taken(made)
        made.save()
        made.channels.set(channels)
        record(actor, "alert_rule.create", made.subject, reason=reason, after=snapshot(made))
    return made


@transaction.atomic
def change_rule(
    actor: Actor, number: int, changes: Mapping[str, Any], reason: str = "", *, revision: int | None = None
) -> Rule:
    """Change some settings; what is left out stays, and changing nothing leaves no trace.

    ``revision`` guards a form against a change made meanwhile (:class:`Conflict`).
    """
    row = lookup.rule(actor, number, lock=True)
    require(actor, ALERT_EDIT, row.scope)
    if row.kind not in kinds():
        raise BadInput(
            f"The kind {row.kind!r} is not installed.",
            remedy="Install the feature that brings it (HBUS_APPS), or delete the rule.",
            field="kind",
        )
    for field in changes.keys() - set(CHANGES):
        raise BadInput(f"A rule has no setting {field!r} to change.", remedy="See the API.", field=field)
    reason = checks.reason(reason, required=False)
    before = snapshot(row)
    values = {**before, **changes, "channels": tuple(changes.get("channels", before["channels"]))}
    wanted, channels = checked(RuleDraft(**values))
    require(actor, ALERT_EDIT, wanted.scope)
    after = {**asdict(RuleDraft(**values)), "channels": sorted(it.name for it in channels)}
    after |= {field: _value(wanted, field) for field in after if field not in ("channels", "owner")}
    if after == before:
        return row
    if revision is not None and revision != row.revision:
        raise Conflict(f"{row.name} was changed by somebody else meanwhile.", remedy="Reload, look, change it again.")
    wanted.pk, wanted.revision = row.pk, row.revision + 1
    _refuse_taken(wanted)
    wanted.save(force_update=True)
    wanted.channels.set(channels)
    record(actor, "alert_rule.change", wanted.subject, reason=reason, before=before, after=snapshot(wanted))
    return wanted


@transaction.atomic
def delete_rule(actor: Actor, number: int, reason: str, *, clock: Clock | None = None) -> None:
    """Delete a rule. Its open alerts are over; those that were stay as evidence."""
    row = lookup.rule(actor, number, lock=True)
    require(actor, ALERT_EDIT, row.scope)
    reason = checks.reason(reason)
    now_ms = (clock or SystemClock()).now_ms()
    row.alerts.filter(state=Alert.State.PENDING).delete()
    for alert in row.alerts.filter(state=Alert.State.FIRING):
        judge.resolve(alert, now_ms, f"The rule was deleted by {actor.name}.")
        alert.save(update_fields=["state", "resolved_ms", "over_because"])
    record(actor, "alert_rule.delete", row.subject, reason=reason, before=snapshot(row))
    row.delete()


def try_rule(actor: Actor, number: int, *, clock: Clock | None = None) -> list[Tried]:
    """Send a message marked as a test to every channel of the rule, now, and tell what each answered."""
    row = lookup.rule(actor, number)
    require(actor, ALERT_EDIT, row.scope)
    channels = list(row.channels.filter(enabled=True))
    if not channels:
        raise BadInput(
            f"{row.name} has no channel that is switched on.",
            remedy="Choose one, or make one under Channels; firing alerts show on the page in any case.",
            field="channels",
        )
    with transaction.atomic():
        record(actor, "alert_rule.test", row.subject, after={"channels": [it.name for it in channels]})
    return trying.try_all(row, channels, clock or SystemClock())


def snapshot(row: Rule) -> dict[str, Any]:
    """A rule as a draft says it."""
    return {
        "name": row.name,
        "kind": row.kind,
        **{field: _value(row, field) for field in CHANGES if field not in ("name", "owner", "channels")},
        "owner": row.team.name if row.team else "",
        "channels": sorted(row.channels.values_list("name", flat=True)),
    }


def _value(row: Rule, field: str) -> Any:
    value = getattr(row, _STORED.get(field, field))
    return str(value) if field in ("severity", "kind") else value


def checked(draft: RuleDraft) -> tuple[Rule, list[Channel]]:
    """The rule of a draft, not stored, and its channels; raises :class:`BadInput` naming the field."""
    kind = kinds()[checks.choice(draft.kind, "kind", kinds())]
    threshold = _number(draft.threshold, "threshold", kind.least)
    clear_below = None if draft.clear_below is None else _number(draft.clear_below, "clear_below", 0.0)
    if clear_below is not None and clear_below > threshold:
        raise BadInput(
            "An alert cannot be over above the value at which it begins.",
            remedy=f"At most {threshold:g}, or leave it empty for the same value.",
            field="clear_below",
        )
    window_s = WINDOW_S if draft.window_s is None else draft.window_s
    made = Rule(
        name=_name(draft.name),
        kind=kind.name,
        scope=valid_scope(checks.text(draft.topics, "topics", most=200, required=True), field="topics"),
        pattern=_pattern(draft.group, kind),
        team=owner_named(draft.owner) if draft.owner else None,
        of_team=bool(draft.owner),
        threshold=threshold,
        window_s=checks.whole(window_s, "window_s", least=30, most=DAY_S, unit="seconds") if kind.windowed else 0,
        for_s=checks.whole(draft.for_s, "for_s", least=0, most=DAY_S, unit="seconds"),
        clear_below=clear_below,
        clear_s=checks.whole(draft.clear_s, "clear_s", least=0, most=DAY_S, unit="seconds"),
        severity=checks.choice(draft.severity, "severity", Rule.Severity.values),
        advice=checks.text(draft.advice, "advice", most=1_000, lines=True),
        enabled=checks.flag(draft.enabled, "enabled"),
    )
    return made, _channels(draft.channels)


def _pattern(value: object, kind: AlertKind) -> str:
    pattern, targets = checks.text(value, "group", most=PATTERN_LIMIT), kind.targets
    if pattern and not targets.within:
        raise BadInput(
            f"{kind.title} is about {targets.words}s.", remedy="Leave the pattern on names empty.", field="group"
        )
    if pattern and not targets.is_pattern(pattern):
        proposed = f"For example {targets.example}, or {targets.example_pattern}; leave" if targets.example else "Leave"
        raise BadInput(
            f"{pattern!r} is neither a {targets.words}'s name nor a pattern.",
            remedy=f"{proposed} it empty for every {targets.words}.",
            field="group",
        )
    return pattern


def _channels(names: object) -> list[Channel]:
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise BadInput("channels is no list of names.", remedy='For example ["on-call"].', field="channels")
    known = {channel.name: channel for channel in Channel.objects.filter(name__in=names)}
    for name in names:
        if name not in known:
            raise BadInput(f"There is no channel {name!r}.", remedy="Make it under Channels first.", field="channels")
    return list(known.values())


def _name(value: object) -> str:
    return checks.text(value, "name", most=80, required=True)


def _number(value: object, field: str, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 1e12:
        raise BadInput(
            f"{field.replace('_', ' ').capitalize()} is not a number from {least:g} on.",
            remedy=f"{value!r} was given.",
            field=field,
        )
    return float(value)


def _refuse_taken(wanted: Rule) -> None:
    if Rule.objects.filter(name__iexact=wanted.name).exclude(pk=wanted.pk).exists():
        raise Conflict(f"There is already a rule {wanted.name!r}.", remedy="Choose another name.", field="name")
