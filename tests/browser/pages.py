"""The pages that are walked, photographed and checked. To add one: add a line.

``{topic}``, ``{group}``, ``{message}`` (which died), ``{letter}``, ``{entry}``, ``{user}`` and ``{operation}`` (with
results) stand for what the example has made; ``{new}`` is an id made just now.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Page:
    """``status`` is what the address answers."""

    name: str
    path: str
    status: int = 200


PAGES = [
    Page("overview", "/?range=15m"),
    Page("kit", "/ui-kit/"),
    Page("search", "/search/?q=booking"),
    Page("search-nothing", "/search/?q=no-such-thing"),
    Page("topics", "/topics/"),
    Page("topic", "/topics/{topic}/?range=15m"),
    Page("topic-schema", "/topics/{topic}/schema/"),
    Page("topic-settings", "/topics/{topic}/settings/"),
    Page("topic-connect", "/topics/{topic}/connect/"),
    Page("topic-audit", "/topics/{topic}/audit/"),
    Page("topic-new", "/new-topic/"),
    Page("teams", "/teams/"),
    Page("publish", "/publish/?topic={topic}"),
    Page("subscriptions", "/subscriptions/"),
    Page("subscription", "/subscriptions/{topic}/{group}/?range=15m"),
    Page("subscription-settings", "/subscriptions/{topic}/{group}/settings/"),
    Page("subscription-new", "/topics/{topic}/subscribe/"),
    Page("messages", "/messages/"),
    Page("message", "/messages/{message}"),
    Page("message-young", "/messages/{new}", status=202),
    Page("messages-dead", "/messages/?outcome=dead"),
    Page("messages-unsettled", "/messages/?outcome=unsettled"),
    Page("api-reference", "/api/v1/docs/"),
    Page("api-reference-about", "/api/v1/docs/teams/"),
    Page("messages-repeated", "/messages/?repeated=any"),
    Page("message-conversation", "/messages/{message}?tab=conversation"),
    Page("message-raw", "/messages/{message}?tab=raw"),
    Page("dead-letters", "/dead-letters/"),
    Page("dead-letter", "/dead-letters/?letter={letter}"),
    Page("dead-letter-edit", "/dead-letters/{letter}/edit"),
    Page("operations", "/operations/"),
    Page("operation", "/operations/{operation}/"),
    Page("operation-plan", "/operations/plan/redrive/?letter={letter}"),
    Page("replay", "/replays/{topic}/"),
    Page("subscription-order", "/subscriptions/{topic}/{group}/order/"),
    Page("audit", "/audit/"),
    Page("audit-entry", "/audit/{entry}/"),
    Page("alerts", "/alerts/"),
    Page("alert-rules", "/alerts/rules/"),
    Page("alert-rule", "/alerts/rules/3/"),
    Page("alert-rule-new", "/alerts/rules/new/?kind=dead_letter_rate"),
    Page("alert-channels", "/alerts/channels/"),
    Page("access", "/access/"),
    Page("access-user-new", "/access/users/new/"),
    Page("access-user", "/access/users/{user}/"),
    Page("access-token-new", "/access/tokens/new/"),
    Page("password", "/password/"),
    Page("cluster", "/cluster/"),
    Page("archive", "/archive/"),
    Page("archive-query", "/archive/query/"),
    Page("archive-advice", "/archive/advice/"),
    Page("audits", "/audits/"),
    Page("not-found", "/no-such-page/", status=404),
    Page("bad-input", "/charts/flow/?range=2h", status=400),
]
