"""Which nsqds there are: named in the configuration, or found by asking nsqlookupd."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence

from engine.bus.transports.nsq.http import CallRefused, HttpDoor, split_address
from engine.core.errors import ConfigurationError, Unavailable

#: How long an answer of nsqlookupd is believed, in seconds. pynsq would ask once a minute.
BELIEVED_S = 5.0
#: Likewise what an nsqd says about itself; a restart may change its port.
INFO_BELIEVED_S = 15.0

#: All that an installation runs that was told nothing, and the embedded nsqd.
_WITH_NSQD = "nsqd,web,consumer,keeper,cron,jobs"

_log = logging.getLogger(__name__)


class Node:
    """One nsqd: its HTTP interface, and where it speaks the TCP protocol."""

    def __init__(self, host: str, http_port: int, tcp_port: int = 0) -> None:
        self.http = HttpDoor(host, http_port)
        self.host = host
        self._tcp_port = tcp_port
        self._told = tcp_port != 0
        self._asked = 0.0
        #: When it was started, in epoch seconds of its own clock, as :meth:`channels` last heard; 0: not yet.
        self.started_s = 0
        #: Topics whose channels are known to be there, and how many connections had been lost when they were made.
        self.prepared: dict[str, int] = {}

    @property
    def name(self) -> str:
        return self.http.address

    def tcp_port(self) -> int:
        """Where consumers connect. Raises :class:`Unavailable` when nsqd has to be asked and does not answer."""
        if not self._told and (not self._tcp_port or time.monotonic() - self._asked > INFO_BELIEVED_S):
            self._tcp_port = int(self.http.get("/info")["tcp_port"])
            self._asked = time.monotonic()
        return self._tcp_port

    def channels(self, nsq_topic: str) -> dict[str, Mapping[str, int]] | None:
        """The channels of a topic with their numbers, and under ``""`` the topic's own; ``None``: no such topic."""
        stats = self.http.get("/stats", format="json", topic=nsq_topic, include_clients="false", include_mem="false")
        self.started_s = int(stats["start_time"])
        for topic in stats.get("topics") or ():
            if topic["topic_name"] == nsq_topic:
                found = {each["channel_name"]: each for each in topic.get("channels") or ()}
                return {"": {name: value for name, value in topic.items() if isinstance(value, int)}, **found}
        return None

    def make(self, nsq_topic: str, channels: Sequence[str]) -> None:
        """Make topic and channels unless they are there. Raises :class:`Unavailable`."""
        self.http.post("/topic/create", topic=nsq_topic)
        for channel in channels:
            self.http.post("/channel/create", topic=nsq_topic, channel=channel)

    def remove(self, nsq_topic: str, channel: str = "") -> None:
        """Delete a channel, or the whole topic; what is not there is left alone. Raises :class:`Unavailable`."""
        self.prepared.pop(nsq_topic, None)
        try:
            if channel:
                self.http.post("/channel/delete", topic=nsq_topic, channel=channel)
            else:
                self.http.post("/topic/delete", topic=nsq_topic)
        except CallRefused as error:
            if error.status != 404:
                raise


class Nodes:
    """The nsqds of one installation. Thread-safe."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._lookups = [
            HttpDoor(*split_address(each, "NSQLOOKUPD_URL")) for each in _words(options.get("nsqlookupd", ""))
        ]
        named = [Node(*split_address(each, "NSQD_URL")) for each in _words(options.get("nsqd", ""))]
        if not named and not self._lookups:
            raise ConfigurationError(
                "There is no nsqd: neither NSQD_URL nor NSQLOOKUPD_URL is set.",
                remedy=f"Start with ROLES={_WITH_NSQD} make run, which does so by itself once a topic goes by NSQ, "
                "or set NSQD_URL=http://host:4151.",
                field="NSQD_URL",
            )
        self._named = named
        self._found: dict[str, Node] = {}
        self._asked = float("-inf")
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """For messages to people."""
        return ", ".join(
            [node.name for node in self._named] or [f"nsqlookupd {each.address}" for each in self._lookups]
        )

    def all(self) -> list[Node]:
        """Every nsqd known now, those that do not answer included."""
        if not self._lookups:
            return self._named
        with self._lock:
            if time.monotonic() - self._asked > BELIEVED_S:
                self._asked = time.monotonic()
                self._look_up()
            return [*self._named, *self._found.values()]

    def held_for(self, nsq_topic: str, channel: str) -> dict[str, int] | None:
        """How many messages each nsqd holds for a channel, by its name; ``None`` while one of them does not answer."""
        held: dict[str, int] = {}
        try:
            for node in self.all():
                found = node.channels(nsq_topic) or {}
                held[node.name] = found.get("", {}).get("depth", 0) + unfinished(found.get(channel, {}))
        except Unavailable as error:
            _log.warning("the backlog of %s cannot be told: %s", channel, error)
            return None
        return held

    def close(self) -> None:
        for node in (*self._named, *self._found.values()):
            node.http.close()
        for lookup in self._lookups:
            lookup.close()

    def _look_up(self) -> None:
        known = {node.name for node in self._named}
        found: dict[str, Node] = {}
        answered = False
        for lookup in self._lookups:
            try:
                producers = lookup.get("/nodes")["producers"]
            except Unavailable as error:
                _log.warning("nsqlookupd does not tell which nsqds there are: %s", error)
                continue
            answered = True
            for each in producers:
                node = Node(each["broadcast_address"], each["http_port"], each["tcp_port"])
                if node.name not in known:
                    found[node.name] = self._found.get(node.name, node)
        # While no nsqlookupd answers, those known before are still there, most likely.
        if answered:
            self._found = found


def unfinished(channel: Mapping[str, int]) -> int:
    """How many messages a channel has, by its numbers."""
    return channel.get("depth", 0) + channel.get("in_flight_count", 0) + channel.get("deferred_count", 0)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
