"""What an audit of the bus says of quota policies: whether more was admitted anywhere than they allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from engine.core.clock import to_rfc3339
from engine.core.error_text import shortened
from engine.core.verdicts import FindingForm, Severity, verdict_of
from hbus_console.evidence import freshness
from hbus_console.quotas.cut_offs import cut_offs
from hbus_console.quotas.held_rules import BooksInForce, is_judged
from hbus_console.quotas.models import POLICY, policy_subject
from hbus_console.quotas.over_admission import SLACK_S, TELLING_S, Over, OverAdmission, PolicyWindows
from hbus_console.quotas.services.rules import policy_of
from hbus_console.quotas.sight import whole_of
from hbus_console.quotas.sums import MINUTE_S, reach
from hbus_console.registry.judging import AuditCheck, JudgedFinding, JudgedSample, JudgedSpan, JudgedSubject
from hbus_console.ui.formats import num

#: What nobody asked for ends so long ago, in seconds: by then it is booked. What is booked later than by this is told.
YOUNG_S, LATE_S = 60, 600
_FORMS: Mapping[str, FindingForm] = {
    "over": FindingForm(
        Severity.WRONG,
        "in {count} windows more was admitted than the limit and the burst allow",
        "in 1 window more was admitted than the limit and the burst allow",
    ),
    "fallback": FindingForm(
        Severity.EXPLAINED,
        "in {count} windows more was admitted than the limit, while nodes were cut off, and no more than they may then",
        "in 1 window more was admitted than the limit, while nodes were cut off, and no more than they may then",
    ),
    "opened": FindingForm(
        Severity.EXPLAINED,
        "in {count} windows more was admitted than the limit, while nodes were cut off and everything passes",
        "in 1 window more was admitted than the limit, while nodes were cut off and everything passes",
    ),
    "unbooked": FindingForm(
        Severity.NOTICE,
        "of {count} policies what was admitted last is not booked yet",
        "what was admitted last is not booked yet",
    ),
    "left_out": FindingForm(
        Severity.NOTICE, "of {count} policies not the whole span was judged", "not the whole span was judged"
    ),
}
#: How windows are kept, and what they are told as.
_TOLD = {"wrong": "over", "fallback": "fallback", "opened": "opened"}


def judge_quotas(span: JudgedSpan) -> Iterator[JudgedSubject]:
    """Of every policy of tokens that was in force. Raises what ``span.go_on`` does."""
    kept = reach(span.now_ms)
    to_s, is_late = _end(span)
    from_s = kept.quarters if span.from_ms is None else -(-span.from_ms // 60_000) * MINUTE_S
    books = BooksInForce(max(from_s, kept.quarters), to_s)
    since_s = books.since_s
    if since_s is None or (begin := max(from_s, kept.quarters, since_s)) >= to_s:
        return
    judging = OverAdmission(books, cut_offs((begin - SLACK_S) * 1000, (to_s + SLACK_S) * 1000), kept, span.go_on)
    judging.walk(begin, to_s)
    begin_ms, why = max(begin, judging.left_out_s) * 1000, ""
    if judging.left_out_s:
        why = f"before {to_rfc3339(begin_ms)}: there are too many uses"
    elif span.from_ms is not None and begin > from_s and not (begin == since_s and books.begins):
        why = f"before {to_rfc3339(begin_ms)}: uses, or the policies of then, are kept no longer"
    names = {policy_of(rule.id) for rule in books.newest().rules if is_judged(rule)}
    for name in sorted({*names, *judging.policies}):
        of_it = judging.policies.get(name, PolicyWindows())
        findings = list(_found(name, of_it))
        if is_late:
            findings.append(CHECK.finding("unbooked", 1, f"since {to_rfc3339(to_s * 1000)}"))
        if why:
            findings.append(CHECK.finding("left_out", 1, why))
        verdict = verdict_of((each.severity for each in findings), is_open=is_late)
        scope = whole_of(books.about[name])
        yield JudgedSubject(policy_subject(name), scope, verdict, begin_ms, to_s * 1000, of_it.judged, findings)


def _end(span: JudgedSpan) -> tuple[int, bool]:
    """The minute up to which it can be judged, and whether more of it should be booked by now."""
    now_s, booked_ms = span.now_ms // 1000, freshness.facts(span.now_ms).of_ms
    known_s = min(now_s - YOUNG_S, now_s if booked_ms is None else booked_ms // 1000 - TELLING_S)
    wanted_s = now_s - LATE_S if span.to_ms is None else min(now_s, span.to_ms // 1000)
    end_s = known_s if span.to_ms is None else min(known_s, wanted_s)
    to_s = end_s // MINUTE_S * MINUTE_S
    return to_s, to_s + MINUTE_S <= wanted_s


def _found(name: str, of_it: PolicyWindows) -> Iterator[JudgedFinding]:
    cut = shortened(f"cut off: {', '.join(sorted(of_it.nodes))}", 200) if of_it.nodes else ""
    for kind, told in _TOLD.items():
        worst: Sequence[Over] = getattr(of_it, kind)
        if worst:
            why = "" if kind == "wrong" else cut
            yield CHECK.finding(told, of_it.counts[kind], why, [_sample(name, over) for over in worst])


def _sample(name: str, over: Over) -> JudgedSample:
    whose = f" to {over.owner}" if over.owner else ""
    says = (
        f"{over.admitted:,} were admitted{whose} in {(over.to_s - over.from_s) // 60:,} min, {num(over.most)} at most"
    )
    return JudgedSample(says, over.from_s * 1000, policy_subject(name))


CHECK = AuditCheck(
    name="quotas",
    title="Quotas",
    subject_kind=POLICY,
    one="policy",
    many="policies",
    clean="in each of {count} windows of {subjects} no more was admitted than the limit and the burst allow",
    nothing="no use of a limit in the span could be judged",
    forms=_FORMS,
    judge=judge_quotas,
)
