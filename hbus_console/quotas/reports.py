"""What a node tells of its limiters, as it lies in the database and as pages read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from engine.core.facts import Moment
from engine.core.prepared import prepared
from engine.quota import LimiterStatus, Source
from engine.quota.terms import Name
from engine.quota.uses import Key, Used
from hbus_console.quotas.models import QuotaNodeReport

#: Limiters that one node tells of: those that refused most, then those that were used most.
MOST_TOLD = 200
#: A node that has not told for so long is taken for silent.
SILENT_AFTER_MS = 15_000
#: What is older than that is of a process that is gone.
GONE_AFTER_MS = 3_600_000


class LimiterReport(msgspec.Struct, frozen=True, array_like=True):
    """One limiter of a node. Infinite limits and tokens are -1."""

    service: str
    resource: str
    tenant: str
    source: Source
    tokens: float
    limit: float
    burst: float
    version: int
    permit: str = ""
    granted: int = 0
    left: int = 0
    expires_s: float = 0.0
    #: A second, over the time since the node told before.
    admitted_s: float = 0.0
    refused_s: float = 0.0


class NodeReport(msgspec.Struct, frozen=True, array_like=True):
    """All that a node tells."""

    version: int
    #: Since when its control plane is away, in epoch milliseconds; 0: it is there.
    away_ms: Moment = 0
    limiters: tuple[LimiterReport, ...] = ()
    #: Limiters it has and does not tell of.
    left_out: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(prepared(NodeReport))


def report_of(
    version: int, away_ms: int, statuses: Iterable[tuple[Name, LimiterStatus]], uses: Mapping[Key, Used], over_s: float
) -> NodeReport:
    """Of what a node's limiters say, and what they admitted and refused within ``over_s`` seconds."""
    nothing = Used()
    told = [
        _limiter(name, status, uses.get((name.service, name.resource, name.tenant), nothing), over_s)
        for name, status in statuses
        # What nothing limits is not held to anything; a shadow bears the name, and the uses, of the limiter beside it.
        if status.source is not Source.LOCAL and not name.shadow
    ]
    told.sort(key=lambda each: (-each.refused_s, -each.admitted_s, each.service, each.resource, each.tenant))
    return NodeReport(version, away_ms, tuple(told[:MOST_TOLD]), max(0, len(told) - MOST_TOLD))


def keep_report(node: str, at_ms: int, report: NodeReport) -> None:
    """Write it over what the node told before."""
    QuotaNodeReport.objects.update_or_create(node=node, defaults={"at_ms": at_ms, "told": _encode(report)})


def read_reports(now_ms: int) -> list[tuple[QuotaNodeReport, NodeReport]]:
    """What nodes told within the hour, by name; one that is of another release and cannot be read is left out."""
    found = []
    for row in QuotaNodeReport.objects.filter(at_ms__gt=now_ms - GONE_AFTER_MS):
        try:
            found.append((row, _decoder.decode(bytes(row.told))))
        except msgspec.DecodeError:
            continue
    return found


def _limiter(name: Name, status: LimiterStatus, used: Used, over_s: float) -> LimiterReport:
    return LimiterReport(
        name.service, name.resource, name.tenant, status.source, _finite(status.tokens), _finite(status.limit),
        _finite(status.burst), status.version, status.permit, status.granted, status.left, status.expires_s,
        used.admitted / over_s, used.refused / over_s,
    )  # fmt: skip


def _finite(number: float) -> float:
    return -1.0 if number == float("inf") else number
