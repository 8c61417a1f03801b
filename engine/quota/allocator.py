"""The control plane's arithmetic: who gets how many tokens. ``lua/want.lua`` is the same, step by step.

Each bucket is a token bucket on the control plane's clock; nothing is ever sold that is not in it. Who may take how
much of it is a matter of accounts: the limit is shared out among those who ask, exactly (:mod:`engine.quota.waterfill`:
tenants first, then the limiters of each), and each collects its share as time goes by. What nobody collects stays in
the bucket, and whoever comes may have it, but for what the others are about to collect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from engine.quota.protocol import LIFETIME_S, REFILL_S, Alloc, Answer, BucketLink, KeptRule, Want
from engine.quota.waterfill import Claim, shares, waterfill

#: Who has not asked for so long asks for nothing any more, in seconds; and who would have run out of what it was given
#: three times over, but for a second.
LIVE_S, LIVE_LEAST_S = LIFETIME_S + 1.0, 1.0
#: What is not collected for so long goes back to all, in seconds.
COLLECT_S = 2 * REFILL_S
#: With more claims than that in a bucket, shares are found again only every :data:`LEVEL_S` seconds.
FEW_CLAIMS, LEVEL_S = 64, 0.25
#: What was spent in fallback is repaid out of so many seconds of the limit at most.
REPAY_S = 60.0
#: How long a node counts among those that share what may be spent without asking, once it has asked; in seconds. No
#: more are told apart than so many: of more, those that asked last.
NODES_S, MOST_NODES = 3_600.0, 10_000
#: The longest that a node is told to wait: within a permit's life others may have returned theirs.
AGAIN_MOST_S = LIFETIME_S
#: An answer is kept for so long, in seconds: as long as whoever did not get it may ask again, though the clock be
#: stepped.
TOLD_S = 60.0
#: A clock that is behind by no more than that is waited for: it was put right. Further behind it is another clock, for
#: whose old time to come again nobody waits. In seconds.
BACK_S = 2.0
#: Sums of fractions of seconds are no more exact than that.
_LOST = 1e-9


@dataclass(slots=True)
class Claimant:
    """One limiter on one node, as a bucket knows it."""

    tenant: str
    demand: float = 0.0
    weight: float = 1.0
    floor: float = 0.0
    priority: int = 0
    #: When it counts as gone, unless it asks again.
    until: float = 0.0
    #: What it may collect, down to -1: a token is not divided, so who gets one early waits for the next.
    account: float = 0.0
    account_at: float = 0.0
    #: Its share of the limit.
    share: float = 0.0


@dataclass(slots=True)
class BucketState:
    tokens: float
    #: The bucket's own time, which never runs back, and what the control plane's clock showed then.
    at: float
    seen: float
    #: What :attr:`tokens` grew by a second since; of a rule with a period, what they were counted down from.
    limit: float
    #: What the control plane's clock showed when it was made.
    born: float
    claimants: dict[str, Claimant] = field(default_factory=dict)
    #: Of a rule with a period: when that began and ends, in epoch milliseconds, what may be had of it in all, and what
    #: of that was. While the rule has none they stay, for it may have one again.
    began_ms: int = 0
    ends_ms: int = 0
    allowed: float = 0.0
    used: float = 0.0
    #: When shares were last found.
    shared_at: float = -math.inf
    #: What all shares come to.
    shared: float = 0.0
    #: What came in while it was full.
    spilled: float = 0.0
    #: When each node asked last, in that order.
    nodes: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Offered:
    """What one bucket of the chain would let go."""

    state: BucketState
    rule: KeptRule
    claimant: Claimant
    #: Tokens.
    most: int
    #: Until there is more for this claimant.
    again_s: float
    #: What this node may spend of it without asking, in tokens a second.
    alone: float


class Answered(NamedTuple):
    """What a limiter of a node was told last, and when."""

    at: float
    want: Want
    alloc: Alloc


class Allocator:
    """The control plane in one process's memory. Not thread-safe; time is an argument, in seconds that may step."""

    def __init__(self, now: float, epoch: int = 1) -> None:
        self.epoch = epoch
        self.version = 0
        self._born = now
        self._rules: Mapping[str, KeptRule] = {}
        self._buckets: dict[tuple[str, str], BucketState] = {}
        #: By limiter and life of a node.
        self._answers: dict[str, Answered] = {}

    def keep_rules(self, version: int, rules: Mapping[str, KeptRule]) -> bool:
        """Go over to a newer version of the rules; whether it is newer."""
        if version <= self.version:
            return False
        self.version, self._rules = version, dict(rules)
        return True

    def want(self, want: Want, now: float) -> Alloc:
        asked = want
        last = self._told(want, now)
        if last is not None and last.want.id == want.id:
            return last.alloc
        if last is not None and 0 < want.number <= last.want.number:
            return Alloc(want.id, Answer.LATE, version=self.version, epoch=self.epoch)
        if any(link.rule not in self._rules for link in want.chain):
            return Alloc(want.id, Answer.UNKNOWN_RULE, version=self.version, epoch=self.epoch)
        unheard = 0
        if last is not None and last.want.chain == want.chain and last.want.number > want.heard:
            # Nobody has got what that answer gave, nor ever will. What it took as repaid is being repaid again.
            unheard = last.alloc.granted
            want = msgspec.structs.replace(want, repaid=max(0, want.repaid - last.want.repaid))
        offers = [self._offer(number, want, unheard, now) for number in range(len(want.chain))]
        granted = min(want.asked, *(offer.most for offer in offers))
        for offer in offers:
            offer.state.tokens -= granted
            if offer.rule.by_period:
                offer.state.used = offer.state.allowed - offer.state.tokens
            offer.claimant.account = max(-1.0, offer.claimant.account - granted)
            offer.claimant.until = offer.state.at + _lasts(want, granted)
        alloc = self._answer(want, offers, granted)
        self._answers.pop(_life(want), None)
        self._answers[_life(want)] = Answered(now, asked, alloc)
        return alloc

    def _told(self, want: Want, now: float) -> Answered | None:
        """What this limiter was told last. (They lie in the order of their moments.)"""
        while self._answers:
            key = next(iter(self._answers))
            if self._answers[key].at + TOLD_S > now:
                break
            del self._answers[key]
        return self._answers.get(_life(want))

    def _offer(self, number: int, want: Want, unheard: int, now: float) -> Offered:
        link = want.chain[number]
        rule = self._rules[link.rule]
        state = self._bucket(link, rule, now)
        over = rule.by_period and is_over(state, now)
        now = state.at
        rate = 0.0 if rule.by_period else rule.limit
        _settle(state, rule, want, number, unheard)
        claimant = _claimant(state, want, now)
        _share_out(state, rate, now)
        earned = claimant.share * max(0.0, now - claimant.account_at)
        claimant.account = min(claimant.account + earned, claimant.share * COLLECT_S + 1)
        claimant.account_at = now
        # What comes in, and would be lost, pays for what the others are about to collect.
        spills = max(0.0, state.tokens + REFILL_S * rate - room(rule)) if rate else 0.0
        free = state.tokens - max(0.0, REFILL_S * max(0.0, state.shared - claimant.share) - spills)
        own = math.ceil(claimant.account - _LOST) if claimant.account > _LOST else 0
        most = 0 if over else max(0, min(math.floor(state.tokens + _LOST), max(own, math.floor(free + _LOST))))
        alone = rule.fallback * rule.limit / _count(state, want.node, now)
        return Offered(state, rule, claimant, most, _again(state, claimant, rate, free), alone)

    def _bucket(self, link: BucketLink, rule: KeptRule, now: float) -> BucketState:
        state = self._buckets.get((link.rule, link.owner))
        if state is None:
            state = self._buckets[link.rule, link.owner] = begun(rule, now, self._born)
        pass_time(state, link, rule, now, self._born)
        return state

    def _answer(self, want: Want, offers: Sequence[Offered], granted: int) -> Alloc:
        narrowest = min(offers, key=lambda offer: (offer.most, -offer.again_s))
        again_s = 0.0
        if granted < want.asked:
            again_s = REFILL_S if granted else min(AGAIN_MOST_S, max(REFILL_S / 10, *(o.again_s for o in offers)))
        return Alloc(
            want.id,
            Answer.GRANTED,
            granted,
            LIFETIME_S,
            again_s,
            self.version,
            self.epoch,
            want.chain[offers.index(narrowest)].rule,
            narrowest.rule.limit,
            narrowest.rule.burst,
            min(offer.claimant.share for offer in offers),
            min(offer.alone for offer in offers),
            tuple(offer.state.spilled for offer in offers),
            tuple(offer.state.born for offer in offers),
            tuple(offer.alone for offer in offers),
            narrowest.most - granted,
        )


def begun(rule: KeptRule, now: float, born: float) -> BucketState:
    """A bucket that nobody has asked yet. Nobody knows what was taken before the memory began, at ``born``."""
    return BucketState(min(room(rule), rule.limit * max(0.0, now - born)), now, now, rule.limit, now)


def pass_time(state: BucketState, link: BucketLink, rule: KeptRule, now: float, born: float) -> None:
    """What comes in until ``now``, and what another limit or period makes of it."""
    passed = max(0.0, now - state.seen)
    if passed or now < state.seen - BACK_S:
        state.seen = now
    state.at += passed
    if rule.by_period:
        _go_by_period(state, link, now)
        # What was used of it counts against whatever limit it has.
        state.allowed = state.used if is_over(state, now) else rule.limit * known_share(state, born)
        state.tokens = state.allowed - state.used
    else:
        # When the limit changed nobody knows here.
        _pour(state, rule, min(rule.limit, state.limit) * passed)
    state.limit = rule.limit


def _go_by_period(state: BucketState, link: BucketLink, now: float) -> None:
    """Which period it is, whoever asks: nodes whose clocks are wrong name one that is not."""
    if not link.began_ms <= now * 1000 < link.ends_ms:
        return
    if link.began_ms >= state.ends_ms:
        state.used = 0.0
    # One that begins before the last has ended is the same in another time zone, or of another length.
    state.began_ms, state.ends_ms = link.began_ms, link.ends_ms


def is_over(state: BucketState, now: float) -> bool:
    """Whether its period has ended, so that nothing of it is for sale."""
    return now * 1000 >= state.ends_ms


def known_share(state: BucketState, born: float) -> float:
    """The part of its period that this memory knows: of what was taken before it began nobody knows."""
    length_ms = state.ends_ms - state.began_ms
    since_ms = min(max(0.0, born * 1000 - state.began_ms), length_ms)
    return 1.0 - since_ms / length_ms if length_ms > 0 else 1.0


def room(rule: KeptRule) -> float:
    """What a bucket holds: the burst, and no less than what is prepaid at a time."""
    return rule.limit if rule.by_period else max(rule.burst, rule.limit * REFILL_S)


def _key(want: Want) -> str:
    return f"{want.limiter}@{want.node}"


def _life(want: Want) -> str:
    return f"{want.limiter}@{want.node}@{want.life}"


def _pour(state: BucketState, rule: KeptRule, tokens: float) -> None:
    filled = state.tokens + tokens
    state.tokens = min(room(rule), filled)
    state.spilled += filled - state.tokens


def _settle(state: BucketState, rule: KeptRule, want: Want, number: int, unheard: int) -> None:
    """Take back what is unspent, and charge what was spent without asking: but for what spilled meanwhile, once. What
    another bucket of this name sold, or spilled, counts for nothing here.
    """
    is_of_this = number < len(want.born) and want.born[number] == state.born
    _pour(state, rule, unheard + (want.returned if is_of_this else 0))
    then = want.spilled[number] if is_of_this and number < len(want.spilled) else state.spilled
    paid = min(want.repaid, max(0.0, state.spilled - then))
    state.spilled -= paid
    state.tokens = max(state.tokens - (want.repaid - paid), min(state.tokens, -REPAY_S * rule.limit))


def _claimant(state: BucketState, want: Want, now: float) -> Claimant:
    """The row of who asks, up to date; others that have gone are forgotten."""
    key = _key(want)
    for other in [name for name, claimant in state.claimants.items() if claimant.until < now]:
        del state.claimants[other]
    claimant = state.claimants.get(key)
    if claimant is None:
        claimant = state.claimants[key] = Claimant(want.tenant, account_at=now)
        if len(state.claimants) <= FEW_CLAIMS:
            state.shared_at = -math.inf
    claimant.demand, claimant.until = want.demand, now + LIVE_S
    claimant.weight, claimant.floor, claimant.priority = want.weight, want.floor, want.priority
    return claimant


def _lasts(want: Want, granted: int) -> float:
    """How long this is remembered, in seconds."""
    if want.demand <= 0:
        return LIVE_S
    return min(LIVE_S, max(LIVE_LEAST_S, 3 * max(want.asked, granted) / want.demand))


def _share_out(state: BucketState, rate: float, now: float) -> None:
    """Find everybody's share of ``rate``."""
    if len(state.claimants) > FEW_CLAIMS and now - state.shared_at < LEVEL_S:
        return
    state.shared_at = now
    tenants: dict[str, list[Claimant]] = {}
    for claimant in state.claimants.values():
        tenants.setdefault(claimant.tenant, []).append(claimant)
    given = shares(rate, [_together(claimants) for claimants in tenants.values()])
    for share, claimants in zip(given, tenants.values(), strict=True):
        parts = waterfill(share, [claimant.demand for claimant in claimants], [1.0] * len(claimants))
        for claimant, part in zip(claimants, parts, strict=True):
            claimant.share = part
    state.shared = sum(given)


def _count(state: BucketState, node: str, now: float) -> int:
    """How many nodes ask of it, this one among them: each may spend its part while the control plane is away."""
    state.nodes.pop(node, None)
    state.nodes[node] = now
    while len(state.nodes) > MOST_NODES or state.nodes[next(iter(state.nodes))] < now - NODES_S:
        del state.nodes[next(iter(state.nodes))]
    return len(state.nodes)


def _together(claimants: Sequence[Claimant]) -> Claim:
    """What a tenant claims, all its limiters on all nodes together. (Its rule may just be changing.)"""
    return Claim(
        sum(claimant.demand for claimant in claimants),
        max(claimant.weight for claimant in claimants),
        max(claimant.floor for claimant in claimants),
        max(claimant.priority for claimant in claimants),
    )


def _again(state: BucketState, claimant: Claimant, rate: float, free: float) -> float:
    """Seconds until one more token is there for this claimant."""
    if rate <= 0:
        return AGAIN_MOST_S
    collected = max(-claimant.account / claimant.share, (1 - state.tokens) / rate) if claimant.share > 0 else math.inf
    return max(0.0, min(collected, (1 - free) / rate))
