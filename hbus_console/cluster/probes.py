"""How the store and the databases are, asked now and with little patience: a page must not hang on what is ill."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from engine.core.error_text import class_of, words_of
from engine.core.errors import ConfigurationError
from engine.core.store import StoreAddress, condition_of, each_primary, open_client
from hbus_console.wiring import store

_PATIENCE_S = 1.0
#: A store that takes as long as this to answer a PING is called slow: one nearby takes a thousandth of it.
SLOW_US = 200_000
#: Share of ``maxmemory`` from which the store is called nearly full.
NEARLY_FULL = 0.85


@dataclass(frozen=True)
class StoreState:
    """The store at one instant; sizes in bytes. With an ``error`` nothing else is known."""

    address: str
    error: str = ""
    #: With an error, what is the matter with a store that is there, as its sentence goes on; empty: it may not be.
    condition: str = ""
    server: str = ""
    version: str = ""
    #: ``None``, as how much goes on in it: not told to whoever reads it.
    memory: int | None = 0
    #: 0: no limit.
    limit: int = 0
    #: Whether it is about to refuse writes.
    nearly_full: bool = False
    policy: str = ""
    durable: bool = False
    write_error: str = ""
    #: Why it takes no writes, in words; empty when it takes them.
    refusal: str = ""
    #: How long it took to answer a PING.
    answer_us: int = 0
    #: When a write is forced to disk, in words; empty where the server does not tell.
    sync: str = ""
    clients: int = 0
    operations: int | None = 0
    keys: int | None = 0
    uptime_s: int = 0

    def without_amounts(self) -> StoreState:
        """For whoever may not learn by them how large a message is, or how much goes on elsewhere."""
        return replace(self, memory=None, operations=None, keys=None)

    @property
    def away(self) -> str:
        """Why it answers nothing, as a sentence."""
        return f"The store {self.condition}." if self.condition else f"The store does not answer: {self.error}."

    @property
    def slow(self) -> bool:
        return self.answer_us >= SLOW_US

    @property
    def troubles(self) -> list[str]:
        """What a person should look after, each as a sentence; empty when all is well."""
        if self.error:
            return [self.away]
        found = [self.refusal] if self.refusal else []
        if self.write_error:
            found.append(f"The store cannot write its append-only file: {self.write_error}.")
        if self.slow:
            found.append(f"The store is slow: it took {self.answer_us // 1000} ms to answer.")
        if not self.durable:
            found.append("The store keeps nothing on disk: a restart loses every unsettled message.")
        if self.limit and self.policy != "noeviction":
            found.append(f"The store may evict messages when full (maxmemory-policy is {self.policy}).")
        if self.nearly_full:
            how = "nearly" if self.memory is None else f"{self.memory * 100 // self.limit} %"
            found.append(f"The store is {how} full; publishes will be refused at 100 %.")
        return found

    @property
    def tone(self) -> str:
        return "bad" if self.error or self.refusal or self.write_error else "warn" if self.troubles else "ok"


@dataclass(frozen=True)
class DatabaseState:
    """One database at one instant. With an ``error`` nothing else is known."""

    alias: str
    error: str = ""
    engine: str = ""
    version: str = ""
    size: int | None = None
    journal: str = ""
    place: str = ""

    def without_size(self) -> DatabaseState:
        """See :meth:`StoreState.without_amounts`."""
        return replace(self, size=None)

    @property
    def tone(self) -> str:
        return "bad" if self.error else "ok"


@cache
def client() -> redis.Redis:
    """A client that gives up at once, for pages and probes."""
    return open_client(store.url(), answer_timeout_s=_PATIENCE_S, connect_timeout_s=_PATIENCE_S)


def obstacle() -> str:
    """Why the store answers nothing or takes no writes, as a sentence; empty when it does both.

    For pages that would ask the store several things. A store that does not answer is not asked again for a second.
    """
    address = _address()
    until_s, sentence = _away.get(address, (0.0, ""))
    if time.monotonic() < until_s:
        return sentence
    try:
        client().ping()
    except redis.ResponseError as error:
        return _refusal(error)
    except (redis.RedisError, ConfigurationError) as error:
        condition = condition_of(error)
        what = condition.what if condition else ""
        sentence = StoreState(address, error=_reason(error), condition=what).away
        _away[address] = time.monotonic() + _PATIENCE_S, sentence
        return sentence
    return ""


#: By address: until when (monotonic seconds) the store counts as away, and the sentence that says so.
_away: dict[str, tuple[float, str]] = {}


def _refusal(error: redis.ResponseError) -> str:
    """The store refuses even a PING while it cannot write to its disk."""
    if "MISCONF" in str(error):
        return "The store takes no writes: it cannot write to its disk. Make room there and look at its log."
    return f"The store takes no writes: {words_of(error).rstrip('.')}."


def store_state() -> StoreState:
    """Ask the store. Never raises for a store that is away."""
    address = _address()
    try:
        infos: list[dict[str, Any]] = [primary.info("everything") for primary in each_primary(client())]
        begun = time.monotonic()
        refusal = _refused()
        answer_us = round((time.monotonic() - begun) * 1e6)
    except (redis.RedisError, ConfigurationError) as error:
        condition = condition_of(error)
        what = condition.what if condition else ""
        return StoreState(address, error=f"it {what}" if what else _reason(error), condition=what)
    info = infos[0]
    name = str(info.get("server_name", "redis"))
    limits = [int(each.get("maxmemory", 0)) for each in infos]
    limit = sum(limits) if all(limits) else 0
    memory = sum(int(each.get("used_memory_rss", each.get("used_memory", 0))) for each in infos)
    written = all(
        each.get(f"aof_last_{what}_status", "ok") == "ok" for each in infos for what in ("write", "bgrewrite")
    )
    return StoreState(
        address=address,
        server={"valkey": "Valkey", "redis": "Redis"}.get(name, name.title()),
        version=str(info.get(f"{name}_version", info.get("redis_version", ""))),
        memory=memory,
        limit=limit,
        nearly_full=0 < limit * NEARLY_FULL <= memory,
        policy=str(info.get("maxmemory_policy", "")),
        durable=all(each.get("aof_enabled") for each in infos),
        write_error="" if written else "the last write or rewrite failed, see its log",
        refusal=refusal,
        answer_us=answer_us,
        sync=_sync(),
        clients=sum(int(each.get("connected_clients", 0)) for each in infos),
        operations=sum(int(each.get("instantaneous_ops_per_sec", 0)) for each in infos),
        keys=sum(_keys(each) for each in infos),
        uptime_s=int(info.get("uptime_in_seconds", 0)),
    )


def _keys(info: dict[str, Any]) -> int:
    return sum(int(part["keys"]) for name, part in info.items() if name.startswith("db") and isinstance(part, dict))


def _refused() -> str:
    try:
        for primary in each_primary(client()):
            primary.ping()
    except redis.ResponseError as error:
        return _refusal(error)
    return ""


_SYNC = {"always": "synced before each answer", "everysec": "synced every second", "no": "synced when the system likes"}


def _sync() -> str:
    try:
        found = client().config_get("appendfsync")
    except redis.RedisError:
        # Hosted servers refuse CONFIG; then the page says nothing about it.
        return ""
    return _SYNC.get(str(found.get("appendfsync", "")), "")


def database_states() -> list[DatabaseState]:
    """Every database, asked now; two aliases of one place are one line."""
    found: dict[str, DatabaseState] = {}
    for alias in settings.DATABASES:
        state = _database(alias)
        found.setdefault(state.place or alias, state)
    return list(found.values())


def _database(alias: str) -> DatabaseState:
    connection = connections[alias]
    name = str(connection.settings_dict["NAME"])
    try:
        if connection.vendor == "sqlite":
            return _sqlite(alias, connection, name)
        return _postgresql(alias, connection, name)
    except DatabaseError as error:
        return DatabaseState(alias, error=_reason(error), place=Path(name).name)


def _sqlite(alias: str, connection: BaseDatabaseWrapper, name: str) -> DatabaseState:
    with connection.cursor() as cursor:
        version = cursor.execute("SELECT sqlite_version()").fetchone()[0]
        journal = cursor.execute("PRAGMA journal_mode").fetchone()[0]
    files = [Path(name + end) for end in ("", "-wal", "-shm")]
    size = sum(file.stat().st_size for file in files if file.exists())
    return DatabaseState(
        alias, engine="SQLite", version=str(version), size=size, journal=str(journal).upper(), place=Path(name).name
    )


def _postgresql(alias: str, connection: BaseDatabaseWrapper, name: str) -> DatabaseState:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version'), pg_database_size(current_database())")
        version, size = cursor.fetchone()
    place = f"{name} on {connection.settings_dict.get('HOST') or 'localhost'}"
    return DatabaseState(alias, engine="PostgreSQL", version=str(version), size=int(size), place=place)


def _address() -> str:
    try:
        return str(StoreAddress.parse(store.url()))
    except ConfigurationError:
        return ""


def _reason(error: Exception) -> str:
    text = words_of(error).strip().rstrip(".") or class_of(error)
    return text.splitlines()[0][:200]
