"""What nodes are told of policies: the rules of a book, at a moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from engine.quota import Book, OnLoss, Period, Rule, Whose
from hbus_console.quotas.overrides import next_change, override_at, read_overrides

#: What is tried of a policy is a rule of its own, under its name.
_TRIED = " (tried)"


def policy_of(rule: str) -> str:
    """The policy that a rule is of, by the rule's id."""
    return rule.removesuffix(_TRIED)


def rules_of(name: str, settings: Mapping[str, Any], at_ms: int) -> list[Rule]:
    """The rules of one policy: its own, and what is tried of it."""
    limit, burst = settings["limit"], settings["burst"]
    override = override_at(read_overrides(settings["overrides"], settings["zone"]), at_ms)
    if override is not None:
        limit, burst = override.limit, override.burst_of(limit, burst)
    common: dict[str, Any] = {
        "service": settings["service"],
        "resource": settings["resource"],
        "tenant": settings["tenant"],
        "plan": settings["plan"],
        "whose": Whose(settings["whose"]),
        "period": Period(settings["period"]),
        "zone": settings["zone"],
        "on_loss": OnLoss(settings["on_loss"]),
        "fallback": settings["fallback_percent"] / 100,
        "weight": settings["weight"],
        "floor": settings["floor"],
        "priority": settings["priority"],
        "shadow": settings["shadow"],
    }
    found = [Rule(id=name, limit=limit, burst=burst, **common)]
    if settings["canary_percent"]:
        found.append(
            Rule(
                id=f"{name}{_TRIED}",
                limit=settings["canary_limit"],
                burst=settings["canary_burst"],
                sample=settings["canary_percent"] / 100,
                **common,
            )
        )
    return found


def book_of(
    number: int, policies: Mapping[str, Mapping[str, Any]], plans: Mapping[str, str], nodes: int, at_ms: int
) -> Book:
    """The book of that number, out of the settings of policies by their names and the plans of tenants."""
    rules = [rule for name in sorted(policies) for rule in rules_of(name, policies[name], at_ms)]
    return Book(version=number, rules=tuple(rules), plans=dict(plans), nodes=nodes)


def due_after(policies: Iterable[Mapping[str, Any]], at_ms: int) -> int | None:
    """When an override of one of these begins or ends next, in epoch milliseconds."""
    moments = (next_change(read_overrides(each["overrides"], each["zone"]), at_ms) for each in policies)
    return min((moment for moment in moments if moment is not None), default=None)
