"""The admin side: what nsqd knows of topics and channels, and what lies beside it, as one."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from engine.bus import bounds
from engine.bus.dead_entries import dead_entry
from engine.bus.many_groups import GroupName
from engine.bus.not_browsable import NotBrowsable, no_history
from engine.bus.transport import DeadEntry, Depth, Lag, TrimReport
from engine.bus.transports.nsq.names import GroupNames, TopicNames, is_id, published_ms
from engine.bus.transports.nsq.nodes import Node, Nodes, unfinished
from engine.bus.transports.nsq.side_store import SideStore, group_lost
from engine.bus.transports.nsq.sweeping import Sweeper
from engine.core.errors import Unavailable

#: How many keys one SCAN step looks at when a topic is deleted.
SCAN_STEP = 1_000
_NO_COUNTS = (b"generation", b"paused")
_log = logging.getLogger(__name__)

Channels = list[tuple[Node, dict[str, Mapping[str, int]] | None]]


class NsqAdmin(NotBrowsable):
    """See :class:`engine.bus.transport.Admin`. What needs a history is refused: nsqd keeps none."""

    def __init__(self, side_store: SideStore, nodes: Nodes, prefix: str) -> None:
        self._side_store = side_store
        self._nodes = nodes
        self._prefix = prefix

    def create_topic(self, topic: str) -> None:
        names = self._topic(topic)
        self._side_store.command("HSETNX", names.stats, "published", 0)
        self._everywhere(lambda node: node.make(names.nsq, ()))

    def delete_topic(self, topic: str) -> None:
        names = self._topic(topic)
        groups = self.groups(topic)
        for group in groups:
            self._side_store.run("delete_group", names.group(group).delete, ())
        self._everywhere(lambda node: node.remove(names.nsq))
        self._side_store.command("DEL", names.stats, names.pace, names.groups, names.copies, names.cursors)
        cursor: Any = b"0"
        while True:
            cursor, found = self._side_store.command(
                "SCAN", cursor, "MATCH", names.idempotency_pattern, "COUNT", SCAN_STEP, at=names.stats
            )
            if found:
                self._side_store.command("DEL", *found)
            if int(cursor) == 0:
                return

    def create_group(self, topic: str, group: str, start: str = "beginning") -> bool:
        if start not in ("", "beginning", "end"):
            no_history(f"{start!r} cannot be the start of a group", "start")
        names = self._group(topic, group)
        if start == "end" and not self.groups(topic):
            # A topic without a channel keeps what is published, and its first channel gets all of it.
            self._everywhere(lambda node: _empty(node, names.topic.nsq))
        # Before the channel is there: what is published in between comes from its copy.
        first = start != "end" and not self.groups(topic)
        self._side_store.command(
            "HSETNX", names.topic.cursors, group, "0-0" if first else self._newest_copy(names.topic)
        )
        missing = self._make_channel(names)
        made = self._side_store.command("HSETNX", names.state, "generation", secrets.token_hex(4))
        self._side_store.command("SADD", names.topic.groups, group)
        return bool(made) or missing

    def delete_group(self, topic: str, group: str) -> None:
        names = self._group(topic, group)
        # First: from then on no receiver leases anything more.
        self._side_store.run("delete_group", names.delete, ())
        self._side_store.command("SREM", names.topic.groups, group)
        self._side_store.command("HDEL", names.topic.cursors, group)
        self._everywhere(lambda node: node.remove(names.topic.nsq, names.channel))
        if not self.groups(topic):
            # What nobody waits for any more has gone with the channel.
            self._side_store.command("DEL", names.topic.copies)

    def groups(self, topic: str) -> list[str]:
        found = self._side_store.command("SMEMBERS", self._topic(topic).groups)
        names = self._topic(topic)
        return sorted(
            group
            for group in (each.decode() for each in found)
            if self._side_store.command("EXISTS", names.group(group).state)
        )

    def depth(self, topic: str) -> Depth:
        names = self._topic(topic)
        topics = most = 0
        for _, channels in self._channels(names):
            numbers = dict(channels or {})
            topics += numbers.pop("", {}).get("depth", 0)
            most += max((unfinished(each) for each in numbers.values()), default=0)
        kept = max(
            (self._side_store.command("ZCARD", names.group(each).kept) for each in self.groups(topic)), default=0
        )
        return Depth(topics + most + kept, None, None, None)

    def lag(self, topic: str, group: str) -> Lag:
        names = self._group(topic, group)
        held = self._nodes.held_for(names.topic.nsq, names.channel)
        with_nsqd = None if held is None else sum(held.values())
        if with_nsqd == 0:
            # What nsqd has lost counts as well, also while no consumer runs that would find it out.
            Sweeper(self._side_store, self._nodes, names, tells=False).turn({})
        found = self._inspect(names, "" if with_nsqd is None else with_nsqd)
        paused, leased, lapsed, kept_leased, kept_lapsed, retrying, released, dead, smallest, pace_ms = found
        waiting = None if with_nsqd is None else max(0, with_nsqd - leased - lapsed) + released
        if with_nsqd is not None and with_nsqd - leased - lapsed > 0:
            # Only the age of what nobody has yet is guessed by the pace; asking again for just that many.
            pace_ms = self._inspect(names, with_nsqd - leased - lapsed)[9]
        else:
            pace_ms = -1
        oldest = [published_ms(smallest.decode())] if smallest else []
        oldest += [pace_ms] if pace_ms >= 0 else []
        return Lag(
            waiting=waiting,
            in_flight=leased + kept_leased,
            retrying=lapsed + kept_lapsed + retrying,
            dead=dead,
            oldest_ms=min(oldest, default=None),
            paused=bool(paused),
        )

    def checkpoint(self, topic: str, group: str) -> str:
        names = self._group(topic, group)
        if not self._side_store.command("EXISTS", names.state):
            raise group_lost(group)
        for node, channels in self._channels(names.topic):
            if channels is None or group not in channels:
                raise group_lost(group, f"has no channel on nsqd at {node.name}")
        return ""

    def counts(self, topic: str, group: str = "") -> dict[str, int]:
        key = self._group(topic, group).state if group else self._topic(topic).stats
        pairs = _pairs(self._side_store.command("HGETALL", key))
        return {name.decode(): int(value) for name, value in pairs.items() if name not in _NO_COUNTS}

    def seek(self, topic: str, group: str, position: str) -> None:
        names = self._group(topic, group)
        if not self._side_store.command("EXISTS", names.state):
            raise group_lost(group)
        if position != "end":
            no_history(f"{group} cannot go to {position!r}", "position")
        newest = self._newest_copy(names.topic)
        self._everywhere(lambda node: _empty(node, names.topic.nsq, names.channel))
        self._side_store.command("HSET", names.topic.cursors, group, newest)
        self._side_store.command("DEL", *names.working)

    def pause(self, topic: str, group: str) -> None:
        self._set_paused(self._group(topic, group), group, True)

    def resume(self, topic: str, group: str) -> None:
        self._set_paused(self._group(topic, group), group, False)

    def dead(self, topic: str, group: str, limit: int = 100) -> list[DeadEntry]:
        found = self._side_store.oldest(self._group(topic, group).dead, limit=limit, room=bounds.DEAD_BYTES)
        return [dead_entry(each.id, each.flat, is_position=is_id) for each in found]

    def forget_dead(self, topic: str, group: str, entries: Sequence[str]) -> int:
        if not entries:
            return 0
        names = self._group(topic, group)
        return self._side_store.forget(names.dead, names.state, entries)

    def with_dead(self, groups: Sequence[GroupName]) -> list[GroupName]:
        """See :class:`engine.bus.many_groups.FindsDead`. Where groups stand is for nsqd to tell, one by one."""
        counts = self._side_store.each([("XLEN", self._group(*name).dead) for name in groups])
        return [name for name, count in zip(groups, counts, strict=True) if count]

    def trim(self, topic: str, *, older_than_ms: int | None, keep_at_most: int | None) -> TrimReport:
        # nsqd forgets what all groups have settled, and only then: retention concerns topics that nobody reads. Of
        # these it can forget everything or nothing.
        names = self._topic(topic)
        if self.groups(topic):
            return TrimReport(0)
        held = sum((channels or {}).get("", {}).get("depth", 0) for _, channels in self._channels(names))
        newest = self._side_store.command("ZREVRANGE", names.pace, 0, 0)
        last_ms = int(newest[0]) if newest else 0
        too_old = older_than_ms is not None and last_ms < time.time() * 1000 - older_than_ms
        if not too_old and (keep_at_most is None or held <= keep_at_most):
            return TrimReport(0)
        if held:
            self._everywhere(lambda node: _empty(node, names.nsq))
        # By the same rule, also when nsqd has lost what they are of: until then a group to come would have it.
        self._side_store.command("DEL", names.copies)
        return TrimReport(held)

    def _topic(self, topic: str) -> TopicNames:
        return TopicNames(self._prefix, topic)

    def _group(self, topic: str, group: str) -> GroupNames:
        return self._topic(topic).group(group)

    def _newest_copy(self, names: TopicNames) -> str:
        newest = self._side_store.command("XREVRANGE", names.copies, "+", "-", "COUNT", 1)
        return newest[0][0].decode() if newest else "0-0"

    def _set_paused(self, names: GroupNames, group: str, paused: bool) -> None:
        if not self._side_store.command("EXISTS", names.state):
            raise group_lost(group)
        if paused:
            self._side_store.command("HSET", names.state, "paused", 1)
        else:
            self._side_store.command("HDEL", names.state, "paused")

    def _inspect(self, names: GroupNames, waiting: int | str) -> Any:
        return self._side_store.run("inspect", names.inspect, (waiting,), group=names.channel)

    def _channels(self, names: TopicNames) -> Channels:
        """Raises :class:`Unavailable` unless all nsqds answer."""
        return [(node, node.channels(names.nsq)) for node in self._nodes.all()]

    def _make_channel(self, names: GroupNames) -> bool:
        """Make the channel everywhere; whether it was missing where the group was meant to be."""
        known = self._side_store.command("EXISTS", names.state)
        missing = False

        def make(node: Node) -> None:
            nonlocal missing
            channels = node.channels(names.topic.nsq)
            if channels is None or names.channel not in channels:
                missing = missing or bool(known)
                node.make(names.topic.nsq, [names.channel])

        self._everywhere(make)
        return missing

    def _everywhere(self, act: Any) -> None:
        """Do it at every nsqd that answers, which must be at least one; the others are prepared when they come back."""
        trouble: list[Unavailable] = []
        nodes = self._nodes.all()
        for node in nodes:
            try:
                act(node)
            except Unavailable as error:
                trouble.append(error)
                _log.warning("nsqd at %s: %s", node.name, error)
        if len(trouble) == len(nodes):
            raise trouble[0] if trouble else Unavailable("There is no nsqd.", remedy="Start one.")


def _empty(node: Node, nsq_topic: str, channel: str = "") -> None:
    if channel:
        node.http.post("/channel/empty", topic=nsq_topic, channel=channel)
        return
    node.make(nsq_topic, ())
    node.http.post("/topic/empty", topic=nsq_topic)


def _pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """What the store answers as name, value, name, value …"""
    return dict(zip(flat[::2], flat[1::2], strict=True))
