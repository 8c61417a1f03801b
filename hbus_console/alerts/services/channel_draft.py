"""The settings of a channel, each said once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.models import Channel
from hbus_console.drafts.setting import Choice, Clean, Flag, Setting, Text
from hbus_console.drafts.settings import Settings
from hbus_console.outgoing import MAX_URL, check_url
from hbus_console.ui import forms

MOST_RECIPIENTS = 20


@dataclass(frozen=True)
class ChannelKind(Choice):
    """How it tells; where it can lead follows from that."""

    widget: ClassVar[str] = "alerts/_channel_kind.html"


@dataclass(frozen=True)
class Destination(Setting):
    """Where channels of one kind lead; those of another refuse it.

    It may be a secret by itself: an answer gives it to those only who may change it, and null to others.
    """

    #: The kind of channel that has one.
    of_kind: ClassVar[Channel.Kind]
    #: What is said to who gives one to another, and the remedy.
    refusal: ClassVar[tuple[str, str]]

    @property
    def hangs_on_others(self) -> bool:
        return True

    def check(self, value: Any, clean: Clean) -> Any:
        if clean["kind"] == self.of_kind:
            return self.reached(value)
        if value:
            what, remedy = self.refusal
            raise BadInput(what, remedy=remedy, field=self.name)
        return self.default

    @abstractmethod
    def reached(self, value: Any) -> Any:
        """The destination, cleaned; raises :class:`BadInput` unless messages may go there."""

    def answered(self, kind: Any) -> Any:
        return kind | None


@dataclass(frozen=True)
class WebhookAddress(Destination, Text):
    """What a webhook calls. The host's name is looked up, which takes its time: check it outside of transactions."""

    of_kind = Channel.Kind.WEBHOOK
    refusal = ("An e-mail has no address of a webhook.", "Leave it out.")

    def reached(self, value: Any) -> str:
        try:
            return check_url(value)
        except BadInput as refused:
            raise type(refused)(refused.what, remedy=refused.remedy, field=self.name) from refused


@dataclass(frozen=True)
class Recipients(Destination):
    """The mail addresses that an e-mail goes to."""

    rows: int = 2

    of_kind = Channel.Kind.EMAIL
    refusal = ("A webhook has no recipients.", "Leave them out.")
    widget: ClassVar[str] = "area"

    def check(self, value: Any, clean: Clean) -> list[str]:
        return list(super().check(value, clean))

    def reached(self, value: Any) -> list[str]:
        if not isinstance(value, (list, tuple)) or not 1 <= len(value) <= MOST_RECIPIENTS:
            raise BadInput(
                f"An e-mail goes to 1 to {MOST_RECIPIENTS} addresses.", remedy="Give them as a list.", field=self.name
            )
        found = [checks.text(each, self.name, most=200, required=True) for each in value]
        for address in found:
            try:
                validate_email(address)
            except ValidationError:
                what = f"{address!r} is no mail address."
                raise BadInput(what, remedy="Write name@host.", field=self.name) from None
        return list(dict.fromkeys(found))

    def typed(self, form: forms.Form) -> tuple[str, ...]:
        addresses = forms.lines(form, self.name).replace(",", "\n").split("\n")
        return tuple(each.strip() for each in addresses if each.strip())

    def shown(self, value: Any) -> str:
        return value if isinstance(value, str) else "\n".join(value)


@dataclass(frozen=True)
class ChannelDraft:
    """A channel as somebody wants it: a webhook with a ``url``, or an e-mail to ``recipients``."""

    name: Annotated[str, Text(80, label="Name", placeholder="on-call", required=True, act=ALERT_CHANNEL)]
    kind: Annotated[
        str,
        ChannelKind(
            {"webhook": "Webhook: posted as JSON, signed", "email": "E-mail"},
            label="Kind",
            act=ALERT_CHANNEL,
            fixed=True,
        ),
    ]
    url: Annotated[
        str,
        WebhookAddress(
            MAX_URL, label="Address of the webhook", placeholder="https://on-call.example/hbus", act=ALERT_CHANNEL
        ),
    ] = ""
    recipients: Annotated[
        tuple[str, ...], Recipients(rows=3, label="Mail addresses, one a line", act=ALERT_CHANNEL)
    ] = ()
    enabled: Annotated[bool, Flag("on", act=ALERT_CHANNEL)] = True


SETTINGS = Settings(ChannelDraft)
#: The names of what an answer hides from who may not change it.
DESTINATIONS = [name for name, setting in SETTINGS.each.items() if isinstance(setting, Destination)]


def settings_for(kind: str) -> list[str]:
    """What can be said of a channel of that kind, and changed."""
    return [name for name in SETTINGS.changeable if _kind(SETTINGS[name]) in (None, kind)]


def asked_of(kind: str) -> list[Setting]:
    """The same as its page asks for it: it must lead somewhere."""
    asked = [SETTINGS[name] for name in settings_for(kind)]
    return [replace(one, required=True) if isinstance(one, Destination) else one for one in asked]


def checked(draft: ChannelDraft) -> dict[str, Any]:
    """All of it, cleaned. A webhook's host is looked up: not in a transaction. Raises :class:`BadInput`."""
    clean = SETTINGS.checked({name: getattr(draft, name) for name in SETTINGS.stored})
    _require_mail_server(clean["kind"])
    return clean


def changed(row: Channel, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes, cleaned; an address that stays is not looked up again. Raises :class:`BadInput`."""
    clean = SETTINGS.checked_changes(changes, SETTINGS.snapshot(row))
    _require_mail_server(row.kind)
    return clean


def _require_mail_server(kind: str) -> None:
    if kind == Channel.Kind.EMAIL and not settings.EMAIL_HOST:
        raise BadInput(
            "This installation has no mail server.",
            remedy="Set EMAIL_HOST (and what it needs) and start again; see docs/operations.md.",
            field="kind",
        )


def _kind(setting: Setting) -> str | None:
    return setting.of_kind if isinstance(setting, Destination) else None
