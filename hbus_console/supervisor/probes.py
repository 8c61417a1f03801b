"""Is a role ready? Every probe answers the empty string for yes, else the reason in a few words; it never raises."""

from __future__ import annotations

import http.client

import msgspec
import redis

from engine.core.clock import SystemClock
from engine.core.error_text import words_of
from engine.core.store import condition_of, open_client
from hbus_console.nodes.stamps import read_nodes
from hbus_console.supervisor.installation import Installation

_PATIENCE_S = 2.0


def store_answers(at: Installation, slot: int, pid: int) -> str:
    """The embedded store has read its log and answers."""
    try:
        with open_client(at.store_url, answer_timeout_s=_PATIENCE_S, connect_timeout_s=1) as client:
            client.ping()
    except redis.BusyLoadingError:
        return "reading its log"
    except redis.ResponseError as error:
        return f"takes no writes: {_first_sentence(error)}"
    except redis.RedisError as error:
        condition = condition_of(error)
        return condition.what if condition else f"does not answer: {words_of(error)}"
    return ""


def _first_sentence(error: Exception) -> str:
    return words_of(error).partition(". ")[0].rstrip(".")


def nsqd_answers(at: Installation, slot: int, pid: int) -> str:
    """The embedded nsqd has read what it kept on disk and says that it is well."""
    connection = http.client.HTTPConnection("127.0.0.1", at.nsqd_ports[1], timeout=_PATIENCE_S)
    try:
        connection.request("GET", "/ping")
        response = connection.getresponse()
        words = response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer: {words_of(error)}"
    finally:
        connection.close()
    return "" if response.status == 200 else words[:200]


def web_answers(at: Installation, slot: int, pid: int) -> str:
    """``/readyz`` answers 200."""
    address = at.console_url.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=_PATIENCE_S)
    try:
        connection.request("GET", "/readyz", headers={"Host": at.host})
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer: {words_of(error)}"
    finally:
        connection.close()
    if response.status == 200:
        return ""
    try:
        parts = msgspec.json.decode(body)["parts"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"/readyz answered {response.status}"
    return ", ".join(f"{part} {word}" for part, word in parts.items() if word != "ok")


def node_beats(at: Installation, slot: int, pid: int) -> str:
    """The process has stamped that its loop turns."""
    try:
        with open_client(at.store_url, answer_timeout_s=_PATIENCE_S, connect_timeout_s=1) as client:
            # Refused by a store that takes no writes: then nobody can stamp, and no stamp says nothing about a loop.
            client.ping()
            found = [node for node in read_nodes(client, at.prefix, SystemClock()) if node.pid == pid]
    except redis.ResponseError:
        return "cannot stamp: the store takes no writes"
    except redis.RedisError as error:
        return f"cannot ask the store: {words_of(error)}"
    if not found:
        return "has not stamped yet"
    return SILENT if found[0].silent else ""


#: What :func:`node_beats` says of a process that lives and whose loop stands still.
SILENT = "has stopped stamping: its loop stands still"
