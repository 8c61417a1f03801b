"""What differs between two books, and the digest that proves what it was."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from hbus_console.quotas.services.books import plans_at, policies_at

Settings = dict[str, Any]


class Difference(NamedTuple):
    """What differs between two books, by name: what each policy or plan was, and is; ``None`` where it was not."""

    policies: dict[str, tuple[Settings | None, Settings | None]]
    plans: dict[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.policies or self.plans)


def difference(older: int | None, newer: int | None) -> Difference:
    """Between two books by their numbers; ``None``: what stands now."""
    return between(policies_at(older), policies_at(newer), plans_at(older), plans_at(newer))


def between(
    was: dict[str, Settings], is_now: dict[str, Settings], had: dict[str, str], has: dict[str, str]
) -> Difference:
    """Of policies and plans that were read already."""
    return Difference(
        {
            name: (was.get(name), is_now.get(name))
            for name in sorted(was.keys() | is_now.keys())
            if was.get(name) != is_now.get(name)
        },
        {
            tenant: (had.get(tenant, ""), has.get(tenant, ""))
            for tenant in sorted(had.keys() | has.keys())
            if had.get(tenant, "") != has.get(tenant, "")
        },
    )


def digest(found: Difference) -> str:
    """SHA-256 of the whole difference, in hex.

    Anybody can compute it from what the API answers of two books: of its ``policies`` and ``plans`` as JSON in UTF-8,
    keys sorted, without spaces, whole numbers written as integers.
    """
    whole = {
        "policies": [{"name": name, "older": was, "newer": now} for name, (was, now) in found.policies.items()],
        "plans": [{"tenant": tenant, "older": had, "newer": has} for tenant, (had, has) in found.plans.items()],
    }
    text = json.dumps(_whole(whole), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _whole(value: Any) -> Any:
    """Databases and languages differ in how they write 5.0."""
    if isinstance(value, dict):
        return {name: _whole(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
