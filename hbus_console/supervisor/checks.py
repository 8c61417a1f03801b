"""What must hold before any role starts: a store that keeps what it is given, databases that answer, a free port.

Every function raises :class:`~engine.core.errors.ConfigurationError` or :class:`~engine.core.errors.Unavailable`
with one sentence and its remedy; neither ever carries a password.
"""

from __future__ import annotations

import errno
import re
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import redis
from django.conf import settings
from django.db import DatabaseError, connections

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError, Unavailable
from engine.core.store import StoreAddress, StoreKind, condition_of, each_primary, open_client
from engine.core.store.tls import tls_trouble
from hbus_console.supervisor.installation import shown

#: Older servers lack XAUTOCLAIM.
OLDEST_STORE = (6, 2)
#: Seconds for which one answer is waited for.
ANSWER_S = 5.0
#: Seconds for which a store may read its data before a start is given up, and between two looks at it.
LOADING_S = 600.0
_LOOK_S = 0.2
#: Seconds for which Sentinels or a cluster may choose another primary before a start is given up.
CHOOSING_S = 30.0


def _say_nothing(_: str) -> None:
    return


def check_stores(say: Callable[[str], object] = _say_nothing, *, embedded: bool = False) -> list[str]:
    """:func:`check_store` of the installation's store, unless it is embedded, and of each with a name."""
    warnings = [] if embedded else check_store(settings.REDIS_URL, say)
    for name, url in settings.HBUS_STORES.items():
        warnings += [f"{name}: {warning}" for warning in check_store(url, say, field="HBUS_STORES")]
    return warnings


def check_store(
    url: str, say: Callable[[str], object] = _say_nothing, *, field: str = "REDIS_URL", clock: Clock | None = None
) -> list[str]:
    """Ask the store whether the bus can stand on it; returns warnings about what it would not tell.

    A store that still reads its data, as after a power cut, is waited for, and so is one that is about to choose
    another primary; ``say`` hears of it once. Errors name ``field``.
    """
    kind = StoreAddress.parse(url, field=field).kind
    where = shown(url)
    client = open_client(url, field=field, answer_timeout_s=ANSWER_S, connect_timeout_s=ANSWER_S)
    try:
        _await_ready(client, where, kind, say, clock or SystemClock())
        infos = [primary.info() for primary in each_primary(client)]
    except redis.AuthenticationError as error:
        raise ConfigurationError(
            f"The store at {where} refused the password or asks for one.",
            remedy=f"Put it into {field}: redis://:password@host:6379/0.",
            field=field,
        ) from error
    except redis.exceptions.NoPermissionError:
        return [
            f"The store at {where} does not let hbus read INFO: make sure yourself that it is new enough and that its "
            "maxmemory-policy is noeviction, or messages may vanish."
        ]
    except redis.RedisError as error:
        if "cluster support disabled" in str(error):
            raise ConfigurationError(
                f"The store at {where} is no cluster.", remedy=f"Write redis:// in {field}.", field=field
            ) from error
        if trouble := tls_trouble(error, field=field):
            raise ConfigurationError(
                f"The store at {where} cannot be used: {trouble.what}.", remedy=trouble.remedy, field=field
            ) from error
        if condition := condition_of(error):
            raise Unavailable(
                f"The store at {where} {condition.what}.", remedy=condition.remedy, field=field
            ) from error
        raise Unavailable(
            f"The store at {where} does not answer ({_reason(error)}).",
            remedy=f"Start it, or correct {field}.",
            field=field,
        ) from error
    finally:
        client.close()
    for info in infos:
        _refuse_another_kind(where, info, kind, field)
        judge_store(where, info, field=field)
    return []


def _refuse_another_kind(where: str, info: Mapping[str, Any], kind: StoreKind, field: str) -> None:
    if "sentinel_masters" in info:
        raise ConfigurationError(
            f"At {where} is a Sentinel, which knows where the store is and is none itself.",
            remedy=f"Write sentinel://host:port/primary-name in {field}.",
            field=field,
        )
    if kind is not StoreKind.CLUSTER and info.get("cluster_enabled"):
        raise ConfigurationError(
            f"The store at {where} is a node of a cluster.", remedy=f"Write cluster:// in {field}.", field=field
        )


def _await_ready(client: redis.Redis, where: str, kind: StoreKind, say: Callable[[str], object], clock: Clock) -> None:
    begun, said = clock.monotonic(), False
    while True:
        try:
            for primary in each_primary(client):
                primary.ping()
        except redis.AuthenticationError:
            raise
        except redis.BusyLoadingError:
            if clock.monotonic() - begun > LOADING_S:
                raise
            sentence = f"The store at {where} reads its data; waiting for it."
        except redis.ConnectionError as error:
            if kind is StoreKind.SINGLE or tls_trouble(error) or clock.monotonic() - begun > CHOOSING_S:
                raise
            sentence = f"The store at {where} has no primary that answers; waiting for another."
        else:
            return
        if not said:
            say(sentence)
            said = True
        clock.wait(threading.Event(), _LOOK_S)


def judge_store(where: str, info: Mapping[str, Any], *, field: str = "REDIS_URL") -> None:
    """Refuse a server, by what its INFO says, that is too old, takes no writes or may evict messages."""
    version = str(info.get("redis_version", ""))
    if tuple(int(number) for number in re.findall(r"\d+", version)[:2]) < OLDEST_STORE:
        raise ConfigurationError(
            f"The store at {where} is too old: it says it is {version or 'of no version'}.",
            remedy=f"Use Redis {'.'.join(map(str, OLDEST_STORE))} or newer, or any Valkey.",
            field=field,
        )
    if info.get("role") == "slave":
        raise ConfigurationError(
            f"The store at {where} is a replica and takes no writes.",
            remedy=f"Point {field} at the primary.",
            field=field,
        )
    # INFO tells it to everyone; CONFIG GET is closed on most hosted stores.
    policy = info.get("maxmemory_policy")
    if policy != "noeviction":
        raise ConfigurationError(
            f"The store at {where} may evict messages: its maxmemory-policy is {policy}.",
            remedy="Set it to noeviction, or use another store.",
            field=field,
        )


def check_databases() -> None:
    """Open every database and ask it one thing."""
    for alias in settings.DATABASES:
        try:
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT 1")
        except DatabaseError as error:
            raise Unavailable(
                f"The database {alias} at {_database_address(alias)} cannot be opened ({_reason(error)}).",
                remedy="Start it, or correct DATABASE_URL.",
                field="DATABASE_URL",
            ) from error


def check_migrated() -> None:
    """Refuse a database that lacks tables this version needs."""
    # Only a role that starts alone asks; under a supervisor migrations and assets need not be loaded.
    from hbus_console.supervisor.prepare import aliases_to_migrate

    if behind := aliases_to_migrate():
        raise ConfigurationError(
            f"The database {' and '.join(behind)} is not at this version.",
            remedy="Run `python manage.py prepare` once.",
            field="DATABASE_URL",
        )


def check_port(bind: str, port: int) -> None:
    """Refuse an address that the web role could not listen on."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ConfigurationError(
                    f"Port {port} on {bind} is taken by another program.",
                    remedy="Choose another: PORT=8001 make run.",
                    field="PORT",
                ) from error
            raise ConfigurationError(
                f"Nobody can listen on {bind}:{port} ({error.strerror}).", remedy="Correct BIND or PORT.", field="BIND"
            ) from error


def _database_address(alias: str) -> str:
    values = connections[alias].settings_dict
    if connections[alias].vendor == "sqlite":
        return str(values["NAME"])
    return f"{values['HOST'] or 'localhost'}:{values['PORT'] or 5432}/{values['NAME']}"


def _reason(error: Exception) -> str:
    """The first line of what a driver says, without what follows a password."""
    words = words_of(error).strip()
    return re.sub(r"password=\S+", "password=…", words.splitlines()[0].rstrip(".") if words else "")
