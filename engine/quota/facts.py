"""What is told of limits: what they admitted and refused, and when a node was cut off."""

from __future__ import annotations

import re

from engine.core.facts import Amounts, FactBatch, Fields, Texts
from engine.core.subject import NAMESPACE_LIMIT, Subject
from engine.quota.terms import Name

_NAMESPACE = re.compile(rf"[^\s/*]{{1,{NAMESPACE_LIMIT}}}")


class QuotaFields(Fields, frozen=True, array_like=True, gc=False):
    """What a fact of a limit has beside what all facts have."""

    amount: Amounts = 0
    service: Texts = ""
    resource: Texts = ""
    tenant: Texts = ""
    #: The rule that is narrowest for it; empty where nothing limits.
    policy: Texts = ""


def limiter_subject(name: Name) -> Subject:
    """A limiter lies in the namespace of what it limits, such as a topic; what is none belongs to the installation."""
    if _NAMESPACE.fullmatch(name.resource):
        return Subject("limiter", name.resource, f"{name.service} {name.tenant}"[:300])
    return Subject("limiter", "", f"{name.service} {name.resource[:100]} {name.tenant[:100]}"[:300])


def use_fact(kind: str, name: Name, amount: int, at_ms: int, node: str, *, policy: str = "") -> FactBatch:
    """So many tokens met this at a limiter since it was last told."""
    fields = QuotaFields(amount, name.service, name.resource, name.tenant, policy)
    return FactBatch(kind, at_ms, limiter_subject(name), node, fields=fields)


def cut_off_fact(away: bool, at_ms: int, node: str, detail: str = "") -> FactBatch:
    """A node lost its control plane, or has it again."""
    return FactBatch("quota_cut_off" if away else "quota_back", at_ms, None, node, detail=detail)
