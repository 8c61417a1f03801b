"""Who may use which address: one line each. ``test_access_matrix.py`` holds the console to it.

A new address gets a line here: for every method it answers, the least role that may use it (on ``*``). ``ANYONE``
needs no sign-in, ``SIGNED_IN`` no role. What is not named must be answered 405 to everybody.

* ``body``: what the method needs to get past its input check, so that permission is what is tested; a callable gets
  the :class:`~tests.hbus_console.access_world.World`.
* ``keyed=True``: the key that it takes stands in the address: no session, no token of a form. Likewise where a header
  that no other site can set stands for that token.
* ``query``: what its query says; ``{message_id}`` is that of the world.
* ``lists=True``: a GET that shows rows of several topics: what lies outside a person's scope must not appear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ANYONE = "anyone"
SIGNED_IN = "signed in"
Body = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]


@dataclass(frozen=True)
class Line:
    """What the table says of one address."""

    roles: dict[str, str]
    body: dict[str, Body] = field(default_factory=dict)
    lists: bool = False
    query: str = ""
    keyed: bool = False


def may(
    *,
    lists: bool = False,
    query: str = "",
    body: Body | None = None,
    keyed: bool = False,
    **methods: str | tuple[str, Body],
) -> Line:
    """``may(GET="viewer", POST=("editor", {"name": "x"}))``; ``body`` is for every method but GET."""
    roles, bodies = {}, {}
    for method, given in methods.items():
        role, own = given if isinstance(given, tuple) else (given, body or {})
        roles[method] = role
        bodies[method] = own
    return Line(roles, bodies, lists, query, keyed)


WHY = {"reason": "a test"}
_SUBSCRIPTION = {"group": "probe", "owner": "Inside team", "handler": "webhook", "webhook_url": "https://x.example/in"}
_USER = {"username": "probe", "grants": []}
_SCHEMA = {"body": {"type": "object"}}
_JOB = {
    "name": "booking.probe",
    "owner": "Inside team",
    "kind": "http",
    "target": "https://1.1.1.1/",
    "schedule": "@daily",
}
_POLICY = {"name": "probe", "owner": "Inside team", "limit": 5.0, "burst": 5.0}
_WANT = {"id": "w1", "service": "api", "resource": "search", "asked": 1}
_RULE = {"name": "probe", "kind": "lag", "threshold": 1, "topics": "booking.*"}


def _token_body(world: Any) -> dict[str, str]:
    return {"name": "probe", "role": "viewer", "scope": world.scope, "expires_at": world.soon}


TABLE: dict[str, Line] = {
    # --- jobs
    "jobs/": may(GET="viewer", lists=True),
    "jobs/new/": may(GET="editor", POST=("editor", {**_JOB, **WHY})),
    "jobs/preview/": may(POST=("viewer", {"schedule": "@daily"})),
    "runs/": may(GET="viewer", lists=True),
    "jobs/<str:job>/": may(GET="viewer"),
    "jobs/<str:job>/settings/": may(GET="viewer", POST=("editor", {"description": "probe"})),
    "jobs/<str:job>/history/": may(GET="viewer"),
    "jobs/<str:job>/history/chart/": may(GET="viewer"),
    "jobs/<str:job>/versions/": may(GET="viewer"),
    "jobs/<str:job>/versions/<int:version>/restore/": may(POST=("editor", WHY)),
    "jobs/<str:job>/trigger/dry-run/": may(POST=("operator", {"parameters": "{}"})),
    "jobs/<str:job>/trigger/": may(POST=("operator", {"parameters": "{}", **WHY})),
    "jobs/<str:job>/pause/": may(POST=("operator", WHY)),
    "jobs/<str:job>/resume/": may(POST=("operator", WHY)),
    "jobs/<str:job>/delete/": may(POST=("governor", lambda world: {"typed_name": world.job, **WHY})),
    "jobs/<str:job>/runs/<int:run_id>/": may(GET="viewer"),
    "jobs/<str:job>/runs/<int:run_id>/log/": may(GET="viewer"),
    "jobs/simulation/": may(GET="viewer", lists=True),
    "jobs/tags/": may(GET="viewer", lists=True),
    "jobs/tags/<str:tag>/limit/": may(POST=("governor", {"most_at_once": "2", **WHY})),
    "jobs/calendars/": may(GET="viewer"),
    "jobs/calendars/new/": may(GET="governor", POST=("governor", {"name": "probe", "lines": "12-25", **WHY})),
    "jobs/calendars/<str:calendar>/": may(GET="viewer", POST=("governor", {"lines": "12-26", **WHY}), lists=True),
    "jobs/calendars/<str:calendar>/delete/": may(POST=("governor", {"typed_name": "holidays", **WHY})),
    "api/v1/job-calendars": may(GET="viewer", lists=True),
    "api/v1/job-calendars/<str:calendar>": may(
        GET="viewer",
        PUT=("governor", {"lines": "12-26", **WHY}),
        DELETE=("governor", {"typed_name": "holidays", **WHY}),
        lists=True,
    ),
    "api/v1/job-tags": may(GET="viewer", lists=True),
    "api/v1/job-tags/<str:tag>": may(PUT=("governor", {"most_at_once": 2, **WHY})),
    "jobs/nodes/": may(GET="viewer", lists=True),
    "jobs/<str:job>/runs/<int:run_id>/release/": may(POST=("governor", WHY)),
    "api/v1/jobs/<str:job>/runs/<int:run_id>/release": may(POST=("governor", WHY)),
    "jobs/<str:job>/runs/<int:run_id>/cancel/": may(POST=("operator", WHY)),
    "api/v1/jobs/<str:job>/runs/<int:run_id>/cancel": may(POST=("operator", WHY)),
    # --- jobs over HTTP
    "api/v1/jobs": may(GET="viewer", POST=("editor", {**_JOB, **WHY}), lists=True),
    "api/v1/jobs/<str:job>": may(
        GET="viewer",
        PATCH=("editor", {"description": "probe"}),
        DELETE=("governor", lambda world: {"typed_name": world.job, **WHY}),
    ),
    "api/v1/jobs/<str:job>/pause": may(POST=("operator", WHY)),
    "api/v1/jobs/<str:job>/resume": may(POST=("operator", WHY)),
    "api/v1/jobs/<str:job>/series": may(GET="viewer"),
    "api/v1/jobs/<str:job>/versions": may(GET="viewer"),
    "api/v1/jobs/<str:job>/versions/<int:version>/restore": may(POST=("editor", WHY)),
    "api/v1/jobs/<str:job>/slots": may(GET="viewer"),
    "api/v1/jobs/<str:job>/runs/<int:run_id>/attempts": may(GET="viewer"),
    "api/v1/jobs/<str:job>/trigger/dry-run": may(POST=("operator", {})),
    "api/v1/jobs/<str:job>/trigger": may(POST=("operator", WHY)),
    "api/v1/jobs/<str:job>/runs": may(GET="viewer"),
    "api/v1/jobs/<str:job>/runs/<int:run_id>": may(GET="viewer"),
    "api/v1/jobs/<str:job>/runs/<int:run_id>/log": may(GET="viewer"),
    "api/v1/runs": may(GET="viewer", lists=True),
    # --- pings of jobs that run elsewhere
    "ping/<str:code>": may(GET=ANYONE, POST=ANYONE, keyed=True),
    "ping/<str:code>/": may(GET=ANYONE, POST=ANYONE, keyed=True),
    "ping/<str:code>/<str:what>": may(GET=ANYONE, POST=ANYONE, keyed=True),
    "jobs/<str:job>/ping/": may(GET="editor"),
    "jobs/<str:job>/ping/renew/": may(POST=("editor", WHY)),
    "api/v1/jobs/<str:job>/ping": may(GET="editor"),
    "api/v1/jobs/<str:job>/ping/renew": may(POST=("editor", WHY)),
    # --- pipelines
    "archive/": may(GET="viewer", lists=True),
    "archive/advice/": may(GET="viewer"),
    "archive/query/": may(GET="viewer"),
    "archive/query/run/": may(POST=("viewer", {"sql": "SELECT 1"})),
    "archive/query/save/": may(POST=("operator", {"name": "booking.probe", "sql": "SELECT 1"})),
    "archive/query/forget/": may(POST=("operator", {"name": "booking.probe"})),
    "archive/query/<int:query_id>/cancel/": may(POST="viewer"),
    "archive/query/<int:query_id>/result.csv": may(GET="viewer"),
    "archive/<str:topic>/start/": may(POST=("governor", WHY)),
    "archive/<str:topic>/keep/": may(POST=("governor", WHY)),
    "archive/<str:topic>/stop/": may(POST=("governor", WHY)),
    "audits/": may(GET="viewer"),
    "audits/run/": may(POST=("operator", WHY)),
    "audits/<int:audit_id>/": may(GET="viewer"),
    "audits/<int:audit_id>/findings/": may(GET="viewer"),
    "audits/<int:audit_id>/compare/": may(GET="viewer", query="with={audit_id}"),
    "audits/<int:audit_id>/audit.<str:form>": may(GET="viewer"),
    "topics/<str:topic>/history/": may(GET="viewer"),
    "topics/<str:topic>/history/chart/": may(GET="viewer"),
    # --- quotas
    "quotas/": may(GET="viewer", lists=True),
    "quotas/chart/": may(GET="viewer", query="policy=inside"),
    "quotas/try/": may(GET="viewer"),
    "quotas/try/chart/": may(GET="viewer"),
    "quotas/new/": may(
        GET="governor", POST=("governor", {"name": "probe", "owner": "Inside team", "limit": "5", "burst": "5", **WHY})
    ),
    "quotas/suggest/policies/": may(GET="viewer", query="policy=inside"),
    "quotas/suggest/plans/": may(GET="viewer", query="plan=gold"),
    "quotas/tenants/<path:tenant>/": may(GET="viewer"),
    "quotas/tenant-chart/": may(GET="viewer"),
    "quotas/plans/": may(GET="viewer"),
    "quotas/plans/set/": may(POST=("governor", {"tenant": "ada", "plan": "partner", **WHY})),
    "quotas/plans/several/": may(GET="governor", POST=("governor", {"lines": "ada partner", **WHY})),
    "quotas/versions/": may(GET="viewer"),
    "quotas/versions/<int:book>/": may(GET="viewer"),
    "quotas/versions/<int:book>/roll-back/": may(POST=("governor", WHY)),
    "quotas/policies/<str:policy>/": may(GET="viewer"),
    "quotas/policies/<str:policy>/advice/": may(GET="viewer"),
    "quotas/policies/<str:policy>/settings/": may(GET="viewer", POST=("governor", {"description": "probe"})),
    "quotas/policies/<str:policy>/versions/<int:version>/restore/": may(POST=("governor", WHY)),
    "quotas/policies/<str:policy>/promote/": may(POST=("governor", WHY)),
    "quotas/policies/<str:policy>/delete/": may(POST=("governor", {"typed_name": "inside", **WHY})),
    # --- for machines
    "healthz": may(GET=ANYONE),
    "readyz": may(GET=ANYONE),
    "metrics": may(GET=ANYONE),
    # --- sign-in and access
    "login/": may(GET=ANYONE, POST=ANYONE),
    "logout/": may(POST=ANYONE),
    "password/": may(GET=SIGNED_IN, POST=SIGNED_IN),
    "access/": may(GET="viewer"),
    "access/tokens/new/": may(GET="viewer", POST="viewer"),
    "access/tokens/<slug:prefix>/revoke/": may(POST="viewer"),
    "access/users/new/": may(GET="admin", POST="admin"),
    "access/users/<str:username>/": may(GET="admin", POST="admin"),
    # --- overview and shared
    "": may(GET="viewer", lists=True),
    "charts/flow/": may(GET="viewer"),
    "charts/lag/": may(GET="viewer"),
    "examples/<slug:name>/start/": may(POST="admin"),
    "live/": may(GET="viewer"),
    "search/": may(GET="viewer", lists=True, query="q=a"),
    "theme/": may(POST="viewer"),
    "ui-kit/": may(GET="viewer"),
    "ui-kit/chart/": may(GET="viewer"),
    # --- audit
    "audit/": may(GET="operator", lists=True),
    "audit/verify/": may(POST="operator"),
    "audit/posted/": may(GET="viewer", POST="viewer", keyed=True),
    "audit/export/": may(POST=("governor", {"as": "jsonl", "reason": "x"})),
    "audit/<int:seq>/": may(GET="operator"),
    # --- topics, subscriptions, teams
    "topics/": may(GET="viewer", lists=True),
    "topics/<str:name>/": may(GET="viewer"),
    "topics/<str:name>/schema/": may(GET="viewer", POST=("editor", {"act": "add", "body": '{"type": "object"}'})),
    "topics/<str:name>/settings/": may(GET="viewer", POST="editor"),
    "topics/<str:name>/connect/": may(GET="viewer"),
    "topics/<str:name>/audit/": may(GET="operator"),
    "topics/<str:name>/pause/": may(POST=("operator", WHY)),
    "topics/<str:name>/resume/": may(POST=("operator", WHY)),
    "topics/<str:name>/delete/": may(POST=("governor", WHY)),
    "topics/<str:topic>/subscribe/": may(GET="editor", POST="editor"),
    "new-topic/": may(GET="editor", POST="editor"),
    "teams/": may(
        GET="viewer", POST=("governor", {"act": "create", "name": "Probe", "contact": "x", **WHY}), lists=True
    ),
    "publish/": may(GET="operator", POST="operator", lists=True),
    "subscriptions/": may(GET="viewer", lists=True),
    "subscriptions/<str:topic>/<str:group>/": may(GET="viewer"),
    "subscriptions/<str:topic>/<str:group>/settings/": may(GET="viewer", POST="editor"),
    "subscriptions/<str:topic>/<str:group>/pause/": may(POST=("operator", WHY)),
    "subscriptions/<str:topic>/<str:group>/drain/": may(POST=("operator", WHY)),
    "subscriptions/<str:topic>/<str:group>/drain/state/": may(GET="viewer"),
    "subscriptions/<str:topic>/<str:group>/resume/": may(POST=("operator", WHY)),
    "subscriptions/<str:topic>/<str:group>/breaker/": may(POST=("operator", {"act": "close", "reason": "why"})),
    "subscriptions/<str:topic>/<str:group>/order/": may(GET="viewer"),
    "subscriptions/<str:topic>/<str:group>/unpark/": may(
        POST=("operator", {"key": "a", "head": "retry", "reason": "why"})
    ),
    "subscriptions/<str:topic>/<str:group>/follow-code/": may(POST=("editor", WHY)),
    "subscriptions/<str:topic>/<str:group>/rotate-secret/": may(POST=("editor", WHY)),
    "subscriptions/<str:topic>/<str:group>/delete/": may(POST=("editor", WHY)),
    # --- messages
    "messages/": may(GET="viewer", lists=True),
    "messages/reveal/<path:message_id>": may(POST=("governor", WHY)),
    "messages/evidence/<path:message_id>": may(GET="viewer"),
    "messages/<path:message_id>": may(GET="viewer"),
    "message/": may(GET="viewer", query="id={message_id}"),
    "message/reveal/": may(POST=("governor", WHY), query="id={message_id}"),
    "message/evidence/": may(GET="viewer", query="id={message_id}"),
    # --- evidence
    "evidence/": may(GET="viewer", lists=True, query="correlation=01M7"),
    # --- dead letters
    "dead-letters/": may(GET="viewer", lists=True),
    "dead-letters/export": may(GET="viewer", lists=True),
    "dead-letters/<int:letter_id>/redrive": may(POST=("operator", WHY)),
    "dead-letters/<int:letter_id>/discard": may(POST=("operator", WHY)),
    "dead-letters/<int:letter_id>/edit": may(GET="viewer", POST=("editor", {"payload": "{}", **WHY})),
    # --- replays
    "replays/<str:topic>/": may(GET="viewer"),
    "replays/<str:topic>/test/": may(GET="viewer"),
    # --- operations
    "operations/": may(GET="viewer", lists=True),
    "operations/plan/<slug:kind>/": may(
        GET="operator",
        POST=("operator", {"spec": '{"topic": "booking.created"}', **WHY}),
        query="topic=booking.created",
    ),
    "operations/<int:operation_id>/": may(GET="viewer"),
    "operations/<int:operation_id>/pause/": may(POST=("operator", WHY)),
    "operations/<int:operation_id>/resume/": may(POST=("operator", WHY)),
    "operations/<int:operation_id>/cancel/": may(POST=("operator", WHY)),
    # --- alerts
    "alerts/": may(GET="viewer", lists=True),
    "alerts/<int:alert_id>/": may(GET="viewer"),
    "alerts/<int:alert_id>/chart/": may(GET="viewer"),
    "alerts/<int:alert_id>/acknowledge/": may(POST="operator"),
    "alerts/<int:alert_id>/silence/": may(POST=("operator", {"minutes": "60", **WHY})),
    "alerts/silences/<int:silence_id>/end/": may(POST="operator"),
    "alerts/rules/": may(GET="viewer", lists=True),
    "alerts/rules/new/": may(GET="editor", POST="editor"),
    "alerts/rules/preview/": may(POST=("editor", {"kind": "lag", "threshold": "1", "for_s": "0", "clear_s": "0"})),
    "alerts/rules/<int:rule_id>/": may(GET="viewer", POST="editor"),
    "alerts/rules/<int:rule_id>/test/": may(POST="editor"),
    "alerts/rules/<int:rule_id>/delete/": may(POST=("editor", WHY)),
    "alerts/channels/": may(GET="viewer", POST="governor"),
    "alerts/channels/<int:channel_id>/": may(GET="viewer", POST="governor"),
    "alerts/channels/<int:channel_id>/test/": may(POST="governor"),
    "alerts/channels/<int:channel_id>/rotate-secret/": may(POST=("governor", WHY)),
    "alerts/channels/<int:channel_id>/delete/": may(POST=("governor", WHY)),
    # --- cluster
    "cluster/": may(GET="viewer"),
    # --- API: publishing
    "api/v1/topics/<str:topic>/messages": may(POST=("operator", {"data": {"a": 1}})),
    "api/v1/topics/<str:topic>/messages/batch": may(POST=("operator", {"messages": [{"data": {"a": 1}}]})),
    # --- API: teams and topics
    "api/v1/teams": may(GET="viewer", POST=("governor", {"name": "Probe", "contact": "x", **WHY})),
    "api/v1/teams/<str:team>": may(GET="viewer", PATCH=("governor", {"contact": "y", **WHY}), DELETE=("governor", WHY)),
    "api/v1/asyncapi": may(GET="viewer", lists=True),
    "api/v1/topics": may(
        GET="viewer", lists=True, POST=("editor", {"name": "booking.probe", "owner": "Inside team", **WHY})
    ),
    "api/v1/topics/<str:topic>": may(
        GET="viewer",
        PATCH=("editor", {"description": "new", **WHY}),
        DELETE=("governor", lambda world: {"typed_name": world.topic, **WHY}),
    ),
    "api/v1/topics/<str:topic>/delayed": may(GET="viewer"),
    "api/v1/topics/<str:topic>/pause": may(POST=("operator", WHY)),
    "api/v1/topics/<str:topic>/resume": may(POST=("operator", WHY)),
    "api/v1/topics/<str:topic>/schemas": may(GET="viewer", POST=("editor", _SCHEMA)),
    "api/v1/topics/<str:topic>/schemas/check": may(POST=("viewer", _SCHEMA)),
    "api/v1/topics/<str:topic>/schemas/<int:version>": may(GET="viewer"),
    # --- API: subscriptions
    "api/v1/subscriptions": may(GET="viewer", lists=True),
    "api/v1/topics/<str:topic>/subscriptions": may(GET="viewer", POST=("editor", {**_SUBSCRIPTION, **WHY})),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>": may(
        GET="viewer",
        PATCH=("editor", {"max_attempts": 3, **WHY}),
        DELETE=("editor", lambda world: {"typed_name": world.group, **WHY}),
    ),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>/pause": may(POST=("operator", WHY)),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>/resume": may(POST=("operator", WHY)),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>/drain": may(GET="viewer", POST=("operator", WHY)),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>/breaker": may(
        GET="viewer", POST=("operator", {"act": "close", "reason": "why"})
    ),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>/order": may(GET="viewer"),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>/unpark": may(
        POST=("operator", {"key": "a", "head": "retry", "reason": "why"})
    ),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>/follow-code": may(POST=("editor", WHY)),
    "api/v1/topics/<str:topic>/subscriptions/<str:group>/rotate-secret": may(POST=("editor", WHY)),
    # --- API: messages and dead letters
    "api/v1/messages": may(GET="viewer", lists=True),
    "api/v1/messages/<path:message_id>/timeline": may(GET="viewer"),
    "api/v1/messages/<path:message_id>/reveal": may(POST=("governor", WHY)),
    "api/v1/messages/<path:message_id>": may(GET="viewer"),
    "api/v1/message": may(GET="viewer", query="id={message_id}"),
    "api/v1/message/timeline": may(GET="viewer", query="id={message_id}"),
    "api/v1/message/reveal": may(POST=("governor", WHY), query="id={message_id}"),
    "api/v1/topics/<str:topic>/log": may(GET="viewer"),
    "api/v1/dead-letters": may(GET="viewer", lists=True),
    "api/v1/dead-letters/groups": may(GET="viewer", lists=True),
    "api/v1/dead-letters/export": may(GET="viewer", lists=True),
    "api/v1/dead-letters/<int:letter_id>": may(GET="viewer"),
    "api/v1/dead-letters/<int:letter_id>/redrive": may(POST=("operator", WHY)),
    "api/v1/dead-letters/<int:letter_id>/edit": may(POST=("editor", {"payload": {}, **WHY})),
    "api/v1/dead-letters/<int:letter_id>/discard": may(POST=("operator", WHY)),
    "api/v1/evidence": may(GET="viewer", lists=True, query="correlation=01M7"),
    # --- API: operations
    "api/v1/operations": may(
        GET="viewer", POST=("operator", {"kind": "redrive", "spec": {"topic": "booking.created"}, **WHY}), lists=True
    ),
    "api/v1/operations/plan": may(POST=("operator", {"kind": "redrive", "spec": {"topic": "booking.created"}})),
    "api/v1/operations/<int:operation_id>": may(GET="viewer"),
    "api/v1/operations/<int:operation_id>/items": may(GET="viewer"),
    "api/v1/operations/<int:operation_id>/pause": may(POST=("operator", WHY)),
    "api/v1/operations/<int:operation_id>/resume": may(POST=("operator", WHY)),
    "api/v1/operations/<int:operation_id>/cancel": may(POST=("operator", WHY)),
    # --- API: alerts
    "api/v1/alerts": may(GET="viewer", lists=True),
    "api/v1/alerts/evaluation": may(GET="viewer"),
    "api/v1/alerts/<int:alert_id>": may(GET="viewer"),
    "api/v1/alerts/<int:alert_id>/acknowledge": may(POST="operator"),
    "api/v1/alerts/<int:alert_id>/silence": may(POST=("operator", {"minutes": 60, **WHY})),
    "api/v1/alert-silences": may(GET="viewer", lists=True),
    "api/v1/alert-silences/<int:silence_id>": may(DELETE="operator"),
    "api/v1/alert-rules": may(GET="viewer", lists=True, POST=("editor", _RULE)),
    "api/v1/alert-rules/preview": may(POST=("editor", _RULE)),
    "api/v1/alert-rules/<int:rule_id>": may(
        GET="viewer", PATCH=("editor", {"threshold": 7, **WHY}), DELETE=("editor", WHY)
    ),
    "api/v1/alert-rules/<int:rule_id>/test": may(POST="editor"),
    "api/v1/alert-channels": may(
        GET="viewer", POST=("governor", {"name": "probe", "kind": "webhook", "url": "https://x.example/in"})
    ),
    "api/v1/alert-channels/<int:channel_id>": may(
        GET="viewer", PATCH=("governor", {"enabled": False}), DELETE=("governor", WHY)
    ),
    "api/v1/alert-channels/<int:channel_id>/test": may(POST="governor"),
    "api/v1/alert-channels/<int:channel_id>/rotate-secret": may(POST=("governor", WHY)),
    # --- API: pipelines
    "api/v1/archive/topics": may(GET="viewer", lists=True),
    "api/v1/archive/topics/<str:topic>/series": may(GET="viewer"),
    "api/v1/archive/topics/<str:topic>/rules": may(GET="viewer", PATCH=("governor", WHY)),
    "api/v1/queries": may(GET="viewer", POST=("viewer", {"sql": "SELECT 1"})),
    "api/v1/queries/<int:query_id>": may(GET="viewer", DELETE="viewer"),
    "api/v1/queries/saved": may(GET="viewer"),
    "api/v1/queries/saved/<str:name>": may(GET="viewer", PUT=("operator", {"sql": "SELECT 1"}), DELETE="operator"),
    "api/v1/audits": may(GET="viewer", POST=("operator", WHY)),
    "api/v1/audits/key": may(GET="viewer"),
    "api/v1/audits/<int:audit_id>": may(GET="viewer"),
    "api/v1/archive/topics/<str:topic>": may(GET="viewer", PUT=("governor", WHY), DELETE=("governor", WHY)),
    # --- API: quotas
    "api/v1/quota/policies": may(GET="viewer", POST=("governor", {**_POLICY, **WHY})),
    "api/v1/quota/policies/<str:policy>": may(
        GET="viewer", PATCH=("governor", {"limit": 7.0}), DELETE=("governor", {"typed_name": "everyone", **WHY})
    ),
    "api/v1/quota/policies/<str:policy>/versions": may(GET="viewer"),
    "api/v1/quota/policies/<str:policy>/versions/<int:version>/restore": may(POST=("governor", WHY)),
    "api/v1/quota/policies/<str:policy>/promote": may(POST=("governor", WHY)),
    "api/v1/quota/books": may(GET="viewer"),
    "api/v1/quota/books/difference": may(GET="viewer", query="older=1"),
    "api/v1/quota/books/<int:number>/roll-back": may(POST=("governor", WHY)),
    "api/v1/quota/tenants/<path:tenant>/series": may(GET="viewer"),
    "api/v1/quota/plans": may(GET="viewer", POST=("governor", {"plans": [{"tenant": "ada", "plan": "gold"}], **WHY})),
    "api/v1/quota/plans/<path:tenant>": may(PUT=("governor", {"plan": "gold"})),
    "api/v1/quota/want": may(POST=("viewer", {"node": "n1", "wants": [_WANT]})),
    "api/v1/quota/limits": may(GET="viewer", query="service=api&resource=search"),
    # --- API: access
    "api/v1/me": may(GET=SIGNED_IN),
    "api/v1/users": may(GET="admin", POST=("admin", _USER)),
    "api/v1/users/<str:username>": may(GET="admin", PATCH=("admin", {"active": True})),
    "api/v1/users/<str:username>/password": may(POST=("admin", WHY)),
    "api/v1/tokens": may(GET="viewer", POST=("viewer", _token_body)),
    "api/v1/tokens/<slug:prefix>": may(DELETE="viewer"),
    # --- API: audit
    "api/v1/audit/entries": may(GET="operator", lists=True),
    "api/v1/audit/entries/<int:seq>": may(GET="operator"),
    "api/v1/audit/chain": may(GET="operator"),
    "api/v1/audit/verify": may(POST="operator"),
    "api/v1/audit/export": may(GET="governor", query="as=jsonl"),
    # --- API: the rest
    "api/v1/cluster": may(GET="viewer"),
    "api/v1/schema": may(GET=ANYONE),
    "api/v1/docs/": may(GET=ANYONE),
    "api/v1/docs/<str:tag>/": may(GET=ANYONE),
}
