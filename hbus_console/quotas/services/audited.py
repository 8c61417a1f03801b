"""What the audit log keeps of a difference between books, which may be of thousands: how much it is, the first of it,
where all of it is seen, and the digest that proves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from hbus_console.quotas import addresses
from hbus_console.quotas.models import book_subject
from hbus_console.quotas.services.differences import Difference, Settings, digest

#: Policies, and plans, that are told one by one; and characters of a text among the settings of one.
MOST_TOLD, LONGEST = 20, 200


def before_and_after(found: Difference, made: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both sides for an audit entry of what led to the book of the number ``made``.

    The digest is that of the whole: of what the page of that book, and the API, tell that it changed.
    """
    before, after = dict[str, Any](), dict[str, Any]()
    if found.policies:
        pairs = {name: _apart(*both) for name, both in islice(found.policies.items(), MOST_TOLD)}
        before["policies"], after["policies"] = _sides("policy", "settings", pairs)
    if found.plans:
        before["plans"], after["plans"] = _sides("tenant", "plan", dict(islice(found.plans.items(), MOST_TOLD)))
    after |= {
        "policies_changed": len(found.policies),
        "plans_changed": len(found.plans),
        "not_told_here": max(0, len(found.policies) - MOST_TOLD) + max(0, len(found.plans) - MOST_TOLD),
        "told_whole": addresses.book(book_subject(made)),
        "sha256": digest(found),
    }
    return before, after


def _sides(
    of: str, what: str, pairs: Mapping[str, tuple[Any, Any]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Not by name: the log takes what lies under a name like ``acme-secret`` for a secret."""
    return (
        [{of: name, what: was} for name, (was, _) in pairs.items()],
        [{of: name, what: now} for name, (_, now) in pairs.items()],
    )


def _apart(was: Settings | None, now: Settings | None) -> tuple[Settings | None, Settings | None]:
    """Of a policy that stays what differs, of another all of it."""
    if was is None or now is None:
        return _short(was), _short(now)
    names = [name for name in dict.fromkeys([*was, *now]) if was.get(name) != now.get(name)]
    return _short({name: was.get(name) for name in names}), _short({name: now.get(name) for name in names})


def _short(settings: Settings | None) -> Settings | None:
    if settings is None:
        return None
    return {name: _cut(value) for name, value in settings.items()}


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:LONGEST]} … ({len(value):,} characters)"
    return value
