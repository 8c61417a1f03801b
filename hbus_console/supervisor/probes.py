"""Is a role ready? Every probe answers the empty string for yes, else the reason in a few words; it never raises.

A reason that is :class:`Deaf` says more: the process lives and does not answer for itself. The supervisor starts one
anew that stays so. Whatever answers, be it that it reads its log, takes no writes or waits for another, is not deaf.
"""

from __future__ import annotations

import http.client
import time

import msgspec
import psutil
import redis

from engine.core.clock import SystemClock
from engine.core.error_text import words_of
from engine.core.store import condition_of, open_client
from hbus_console.nodes.stamps import read_nodes
from hbus_console.supervisor.installation import Installation

_PATIENCE_S = 2.0


class Deaf(str):
    """Why a process that lives seems to stand still."""

    __slots__ = ()


#: What :func:`node_beats` says of a process that lives and whose stamps are old while the store answers.
SILENT = Deaf("has stopped stamping: it stands still, or does not reach the store")
#: And after the store was away, for as long as a process may need to stamp again. Not deaf: nobody could stamp.
NOT_AGAIN = "has not stamped since the store answers again"
_STAMPS_AGAIN_S = 10.0
#: And of one whose loop has not turned once, or whose stamps the store has lost.
UNSTAMPED = Deaf("has not stamped yet")


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
        said = condition.what if condition else f"does not answer: {words_of(error)}"
        # Who refuses a password, or one connection more, has answered. And one that waits for its disk, as after each
        # write, is let wait: another would wait for the same disk, and read its log first.
        answered = isinstance(error, redis.AuthenticationError) or (
            condition and not isinstance(error, redis.TimeoutError)
        )
        return said if answered or _waits_for_a_disk(pid) else Deaf(said)
    return ""


def _waits_for_a_disk(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_DISK_SLEEP)
    except psutil.Error:
        return False


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
        return Deaf(f"does not answer: {words_of(error)}")
    finally:
        connection.close()
    return "" if response.status == 200 else words[:200]


def web_answers(at: Installation, slot: int, pid: int) -> str:
    """``/readyz`` answers 200. It is deaf when ``/healthz``, which asks nobody else, has no answer either, and when its
    live pages stand still though all that they are read from answers."""
    try:
        status, body = _asked(at, "/readyz")
    except (OSError, http.client.HTTPException) as error:
        said = f"does not answer: {words_of(error)}"
        try:
            _asked(at, "/healthz")
        except (OSError, http.client.HTTPException):
            return Deaf(said)
        return said
    if status == 200:
        return ""
    try:
        parts = msgspec.json.decode(body)["parts"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"/readyz answered {status}"
    ill = [part for part, word in parts.items() if word != "ok"]
    said = ", ".join(f"{part} {parts[part]}" for part in ill)
    return Deaf(said) if ill == ["live"] else said


def _asked(at: Installation, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(at.console_url.removeprefix("http://"), timeout=_PATIENCE_S)
    try:
        connection.request("GET", path, headers={"Host": at.host})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def node_beats(at: Installation, slot: int, pid: int) -> str:
    """The process has stamped that its loop turns."""
    try:
        with open_client(at.store_url, answer_timeout_s=_PATIENCE_S, connect_timeout_s=1) as client:
            # Refused by a store that takes no writes: then nobody can stamp, and no stamp says nothing about a loop.
            client.ping()
            found = [node for node in read_nodes(client, at.prefix, SystemClock()) if node.pid == pid]
    except redis.ResponseError:
        _away_s[at.store_url] = time.monotonic()
        return "cannot stamp: the store takes no writes"
    except redis.RedisError as error:
        _away_s[at.store_url] = time.monotonic()
        return f"cannot ask the store: {words_of(error)}"
    if not found:
        return UNSTAMPED
    if not found[0].silent:
        return ""
    away_s = _away_s.get(at.store_url)
    return NOT_AGAIN if away_s is not None and time.monotonic() - away_s < _STAMPS_AGAIN_S else SILENT


#: By its address, when (monotonic seconds) the store last failed to answer, or to take a stamp.
_away_s: dict[str, float] = {}
