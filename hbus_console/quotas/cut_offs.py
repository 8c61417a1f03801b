"""When nodes were cut off from the control plane, as they told it: each spends by itself meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hbus_console.evidence.models import Evidence
from hbus_console.quotas.models import QuotaNodeReport
from hbus_console.quotas.reports import GONE_AFTER_MS

_AWAY, _BACK = "quota_cut_off", "quota_back"
#: One that began so long before is found, in milliseconds.
LOOK_BACK_MS = 86_400_000


class CutOff(NamedTuple):
    """Of one node; epoch milliseconds."""

    node: str
    from_ms: int
    to_ms: int

    def overlap_s(self, from_ms: int, to_ms: int) -> float:
        """How much of that time it was so."""
        return max(0, min(self.to_ms, to_ms) - max(self.from_ms, from_ms)) / 1000


def cut_offs(from_ms: int, to_ms: int) -> Sequence[CutOff]:
    """Those that reach into that time, as far as evidence is kept. One that nobody told the end of ends when its node
    was heard of last, or after an hour."""
    told = Evidence.objects.filter(kind__in=(_AWAY, _BACK), at_ms__gte=from_ms - LOOK_BACK_MS, at_ms__lt=to_ms)
    heard = dict(QuotaNodeReport.objects.values_list("node", "at_ms"))
    found: list[CutOff] = []
    since: dict[str, int] = {}
    for kind, node, at_ms in told.order_by("at_ms", "pk").values_list("kind", "node", "at_ms"):
        began_ms = since.pop(node, None)
        if began_ms is not None:
            found.append(CutOff(node, began_ms, at_ms))
        if kind == _AWAY:
            since[node] = at_ms
    for node, began_ms in since.items():
        last_ms = heard.get(node, 0)
        found.append(CutOff(node, began_ms, last_ms if last_ms > began_ms else began_ms + GONE_AFTER_MS))
    return [each for each in found if each.to_ms > from_ms]
