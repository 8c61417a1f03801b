"""What the options of reading and of writing have in common: Spark hands both as texts by name, in whatever case."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from engine.core.errors import BadInput


def by_name(given: Mapping[str, str], known: Collection[str], of: str = "") -> dict[str, str]:
    """By their names in lower case, ``topic`` among them. Raises :class:`BadInput` naming the option."""
    options = {name.lower(): value for name, value in given.items()}
    # Spark itself hands a path on where load() or save() was given one.
    if unknown := sorted(set(options) - set(known) - {"path"}):
        raise BadInput(
            f"There is no option {unknown[0]}{of}.", remedy=f"Options are {', '.join(sorted(known))}.", field=unknown[0]
        )
    if not options.get("topic"):
        raise BadInput("No topic is named.", remedy='Name one: .option("topic", "booking.created").', field="topic")
    return options


def choice(options: Mapping[str, str], name: str, usual: str, other: str) -> str:
    """One of two words, the first unless said. Raises :class:`BadInput`."""
    said = options.get(name, "").lower() or usual
    if said not in (usual, other):
        raise BadInput(f"{name} is {said!r}.", remedy=f"Write {usual} or {other}.", field=name)
    return said
