"""What people type into the pages of subscriptions, as the services take it."""

from __future__ import annotations

from typing import Any

from engine.core.errors import BadInput
from hbus_console.ui.forms import Form, lines, text, whole

_POLICY_NUMBERS = ("concurrency", "max_attempts", "lease_s")
#: Left to what they are when the form does not name them.
_RARE_NUMBERS = (
    "max_handler_s",
    "breaker_failures", "breaker_share", "breaker_window_s", "breaker_open_s", "breaker_longest_open_s",
)  # fmt: skip


def subscription_values(form: Form, *, webhook: bool) -> dict[str, Any]:
    """The settings of a subscription that a person may change."""
    read: dict[str, Any] = {
        "owner": text(form, "owner"),
        "description": lines(form, "description"),
        "backoff_s": _tiers(text(form, "backoff_s")),
        "on_failed_head": text(form, "on_failed_head") or "block",
        **{field: whole(form, field) for field in _POLICY_NUMBERS},
        **{field: whole(form, field) for field in _RARE_NUMBERS if text(form, field)},
    }
    if webhook:
        return {
            **read,
            "webhook_url": text(form, "webhook_url"),
            "webhook_timeout_s": whole(form, "webhook_timeout_s"),
        }
    return {**read, "transactional": "transactional" in form}


def _tiers(sent: str) -> list[Any]:
    tiers: list[Any] = []
    for part in sent.replace(";", ",").split(","):
        try:
            tiers.append(float(part))
        except ValueError:
            raise BadInput(
                f"{part.strip()!r} is no number of seconds.", remedy="For example 1, 5, 30.", field="backoff_s"
            ) from None
    return tiers
