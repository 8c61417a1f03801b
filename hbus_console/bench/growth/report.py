"""Costs, needs, ends and the simulated day as tables, for a terminal and for ``docs/scale.md`` alike."""

from __future__ import annotations

from collections.abc import Sequence

from hbus_console.bench.growth.costs import Costs, predicted_rate
from hbus_console.bench.growth.day import BURST_AT_S, BURST_S, Day, Outage, Park, Queue, live, park
from hbus_console.bench.growth.plan import Demand, Need, bends, needs

#: Units of a need, for one of them.
_ONE = {"cores": "core", "stores": "store", "threads": "thread", "processes": "process"}
#: What happens at the worst moment: the beginning of the burst.
STORIES: Sequence[tuple[str, Sequence[Outage]]] = (
    ("nothing goes wrong", ()),
    ("half the consumers are gone for ten minutes", (Outage("consumers", BURST_AT_S, 600, 0.5),)),
    ("all consumers are gone for five minutes", (Outage("consumers", BURST_AT_S, 300),)),
    ("the stores fail over in thirty seconds", (Outage("stores", BURST_AT_S, 30),)),
    ("nothing is booked for an hour", (Outage("bookers", BURST_AT_S, 3600),)),
)


def tables(costs: Costs, demand: Demand) -> str:
    """Everything, as Markdown."""
    parts = {
        "What a message costs": _costs(costs),
        "What the day asks for": f"{_demand(demand)}\n\n{_needs(costs, demand)}",
        "Where it bends": _bends(costs, demand),
        "The day, simulated": _days(costs, demand),
    }
    return "\n\n".join(f"### {head}\n\n{text}" for head, text in parts.items())


def _costs(costs: Costs) -> str:
    rows = [
        ("publishing process", f"{costs.publish_us:.1f} µs a message"),
        ("consuming process, no-op handler", f"{costs.consume_us:.1f} µs a delivery"),
        ("store, to publish", f"{costs.store_publish_us:.1f} µs a message, {costs.logged_publish_b:,.0f} B of log"),
        (
            "store, to deliver and settle",
            f"{costs.store_consume_us:.1f} µs a delivery, {costs.logged_consume_b:,.0f} B of log",
        ),
        ("kept in the stream", f"{costs.stored_b:,.0f} B a message of {costs.size:,} B"),
        (
            "booked in the ledger (SQLite)",
            f"{costs.booked_us:.1f} µs and {costs.booked_b:,.0f} B a message with one delivery",
        ),
    ]
    predicted = predicted_rate(costs, costs.processes, costs.cores)
    check = (
        f"Held against a run: {costs.processes} consuming processes beside the store on {costs.cores} cores make "
        f"{predicted:,.0f} deliveries a second by these costs and made {costs.measured_rate:,.0f}, "
        f"{costs.measured_rate / predicted:.2f} of it."
    )
    return f"{_table(('', 'cost'), rows)}\n\n{check}\n\n{costs.conditions}."


def _demand(demand: Demand) -> str:
    return (
        f"{demand.per_day:,.0f} messages a day: {demand.mean:,.0f} a second on average, {demand.most:,.0f} at the peak "
        f"({demand.peak:g} times). Each goes to {demand.groups:g} subscriptions, whose handlers take "
        f"{demand.handler_ms:g} ms, {demand.handler_cpu_ms:g} of them on the processor. Nothing is busier than "
        f"{demand.busy:.0%} at the peak. Topics keep messages for {demand.retention_h:g} hours; the busiest topic has "
        f"{demand.busiest:.0%} of them."
    )


def _needs(costs: Costs, demand: Demand) -> str:
    rows = [(need.what, _counted(need), f"{need.units:,.1f}", need.why) for need in needs(costs, demand)]
    return _table(("what", "how much", "exactly", "because"), rows)


def _counted(need: Need) -> str:
    return f"{need.whole:,} {_ONE.get(need.unit, need.unit) if need.whole == 1 else need.unit}"


def _bends(costs: Costs, demand: Demand) -> str:
    rows = [
        (bend.what, f"{bend.most:,}", f"{bend.per_day / 1e6:,.0f} million", bend.answer)
        for bend in bends(costs, demand)
    ]
    return _table(("what has an end", "today at most", "carries a day", "the answer"), rows)


def _days(costs: Costs, demand: Demand) -> str:
    there = park(costs, demand)
    rows = [(story, *_told(live(costs, demand, there, outages))) for story, outages in STORIES]
    head = (
        "at the beginning of the burst",
        "waits at publishers",
        "waits in topics",
        "waits to be booked",
        "topics clear after",
    )
    minutes = BURST_S // 60
    said = (
        f"With just what the day asks for: {_park(there)}. The burst to the peak lasts {minutes} minutes. Each cell "
        "says how much waited at the most, and how old the oldest of it was at the worst."
    )
    return f"{said}\n\n{_table(head, rows)}"


def _park(there: Park) -> str:
    return (
        f"{there.store_us / 1e6:,.1f} stores, consumers for {there.deliveries:,.0f} deliveries a second, "
        f"bookers for {there.booked:,.0f} messages a second"
    )


def _told(day: Day) -> tuple[str, ...]:
    clear_s = max(day.refused.clear_s, day.waiting.clear_s)
    clear = "at once" if clear_s <= BURST_AT_S else f"{(clear_s - BURST_AT_S) / 60:,.0f} min"
    return (_queue(day.refused), _queue(day.waiting), _queue(day.unbooked), clear)


def _queue(queue: Queue) -> str:
    if queue.most < 1:
        return "nothing"
    age = f"{queue.oldest_s:,} s" if queue.oldest_s < 120 else f"{queue.oldest_s / 60:,.0f} min"
    return f"{queue.most / 1e6:,.1f} million, {age}" if queue.most >= 1e5 else f"{queue.most:,.0f}, {age}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|--" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
