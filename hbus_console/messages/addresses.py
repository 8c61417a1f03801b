"""Where the subjects of this feature are shown, and where a program asks for them.

A producer chooses the ids, so they may hold slashes and dots that a client or a proxy takes for steps of a path, be
words that stand beside the ids there, or break a line. Ids that are plain stand in the path; all of them may be named
by ``?id=``, at addresses that no id can be.
"""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from engine.core.subject import Subject
from hbus_console.registry.pages import page

_PLAIN = re.compile(r"(?!\.{1,2}\Z)[^/\\\x00-\x1f\x7f]+")


def message(subject: Subject) -> str:
    """The page of a message."""
    return page_of(subject.namespace, subject.name)


def page_of(topic: str, message_id: str, source: str = "") -> str:
    """The page of the message of that id in ``topic``: another topic, or another ``source``, may have one of the same
    id. Without a source it is the newest."""
    return _page("messages:message", "message:message", topic, message_id, source)


def evidence_of(topic: str, message_id: str, source: str = "") -> str:
    """Likewise, all that is known about it as a file."""
    return _page("messages:evidence", "message:evidence", topic, message_id, source)


def endpoint_of(topic: str, message_id: str, source: str = "") -> str:
    """Likewise, its endpoint of the API."""
    if _is_plain(message_id):
        return f"/api/v1/messages/{quote(message_id, safe=':@')}?{urlencode(_named(topic, source))}"
    return f"/api/v1/message?{by_id(topic, message_id, source)}"


def by_id(topic: str, message_id: str, source: str = "") -> str:
    """The query that names it, whatever its id is."""
    return urlencode({"id": message_id, **_named(topic, source)})


def _page(in_path: str, in_query: str, topic: str, message_id: str, source: str) -> str:
    if _is_plain(message_id):
        return f"{page(in_path, message_id)}?{urlencode(_named(topic, source))}"
    return f"{page(in_query)}?{by_id(topic, message_id, source)}" if message_id else ""


def _named(topic: str, source: str) -> dict[str, str]:
    return {"topic": topic} | ({"source": source} if source else {})


def _is_plain(message_id: str) -> bool:
    return _PLAIN.fullmatch(message_id) is not None
