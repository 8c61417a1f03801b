"""What of a run's parameters, and of a job's options, may be seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine.core.errors import BadInput
from engine.core.redaction import looks_like_key, redact_text
from engine.core.secret_names import hints as _hints
from engine.core.secret_names import tells as _tells
from hbus_console.jobs.schema_walk import Schema, Spoken, Steps, TooMuch
from hbus_console.schemas.json_schema import Place

#: In place of a value that is not to be seen.
MASK = "•••"
#: What says how a value beside it is called, and that value, in small letters: ``{"name": "DB_PASSWORD", "value": …}``.
_LABELS, _LABELLED = frozenset({"name", "key"}), frozenset({"value", "values"})
_COMPOUND = ("object", "array")
#: Of what is not there: null is a value that may be secret.
_ABSENT = object()
#: Names of secrets and of much else (a partition's key, a port): they say so together with a value that looks like one.
_NAMES_OF_MUCH, _ARGUMENTS_OF_MUCH = frozenset({"key", "keys"}), frozenset({"-k", "-p", "--key"})
#: Headers that say what is asked for or sent, in small letters: these may be seen.
_PLAIN_HEADERS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
#: Options that list files; the arguments of a program are listed too, and each of them may be a secret.
_PLAIN_LISTS = frozenset({"py_files"})
#: How many schemas are looked at for one answer. Enough for all that a hand writes, and a few hundredths of a second.
MOST_STEPS = 50_000


def masked(parameters: Mapping[str, Any], *schemas: Schema) -> dict[str, Any]:
    """``parameters`` with what one of the schemas, a telling name or its own form calls secret replaced, at any depth.

    What may be meant is masked: see :mod:`~hbus_console.jobs.schema_walk`. What takes more than :data:`MOST_STEPS` to
    tell is masked whole.
    """
    try:
        return looked_through(parameters, *schemas)
    except TooMuch:
        return dict.fromkeys(parameters, MASK)


def looked_through(parameters: Mapping[str, Any], *schemas: Schema, most: int = MOST_STEPS) -> dict[str, Any]:
    """As :func:`masked`. Raises ``TooMuch`` instead of masking all."""
    steps = Steps(most)
    shown: Any = parameters
    for root in schemas or [{}]:
        shown = shown_value("", shown, Spoken.of(root, root, steps))
        if shown == MASK:
            return dict.fromkeys(parameters, MASK)
    return dict(without_credentials(shown))


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` for who may not change them. What has names that somebody chose (headers, an environment, settings)
    shows these alone: no list of telling names is ever whole. Nor is there one of arguments that tell.
    """
    return {name: _shown_option(name, value) for name, value in masked(options).items()}


def shown_value(name: str, value: Any, spoken: Spoken) -> Any:
    """A ``value`` that is called so, and that is ``spoken`` about, as it may be seen, but for what is secret by its
    form: see :func:`without_credentials`, which asks no schema.
    """
    if _says_so(name, spoken) or (_hints(name) and not isinstance(value, Mapping | list)):
        return MASK
    if isinstance(value, Mapping):
        told = any(_tells(label) or _hints(label) for label in _labels(value).values() if isinstance(label, str))
        return {
            key: MASK if told and key.lower() in _LABELLED else shown_value(key, each, spoken.member(key))
            for key, each in value.items()
        }
    if name.lower() in _NAMES_OF_MUCH and isinstance(value, str) and looks_like_key(value):
        return MASK
    if isinstance(value, list):
        return [
            MASK if _is_argument(value, n) else shown_value(name, each, spoken.items()) for n, each in enumerate(value)
        ]
    return value


def without_credentials(value: Any) -> Any:
    """``value`` without the texts that look like a credential, at any depth."""
    if isinstance(value, Mapping):
        return {key: without_credentials(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_credentials(each) for each in value]
    return MASK if isinstance(value, str) and redact_text(value) != value else value


def is_secret(name: str, schema: Schema, root: Schema | None = None) -> bool:
    """Whether a parameter is given and never shown. ``root``: of which ``schema`` is a part."""
    try:
        said = _says_so(name, Spoken.of(schema, schema if root is None else root, Steps(MOST_STEPS)))
    except TooMuch:
        return True
    return said or (_hints(name) and schema.get("type") not in _COMPOUND)


def hidden_in(value: Any, shown: Any) -> Iterator[Any]:
    """What of ``value`` is masked where it is ``shown``."""
    if shown == MASK:
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from hidden_in(each, shown[name])
    elif isinstance(value, list):
        for each, seen in zip(value, shown, strict=True):
            yield from hidden_in(each, seen)


def masks_in(value: Any) -> list[str]:
    """Where masks stand in it, at whatever depth."""
    return [".".join(map(str, place)) for place in mask_places(value)]


def mask_places(value: Any, at: Place = ()) -> list[Place]:
    """The same, for a schema to tell them apart: a name may hold a dot."""
    if value == MASK:
        return [at]
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    return [found for step, each in inner for found in mask_places(each, (*at, step))]


def restored(
    typed: Mapping[str, Any],
    known: Mapping[str, Any],
    hidden: Mapping[str, Any] | None = None,
    *,
    field: str = "parameters",
) -> dict[str, Any]:
    """``typed`` with each mask as the value that is ``known`` there; raises ``BadInput`` at ``field`` where none is.

    ``hidden`` is ``known`` as it is shown, where less of it is: within what is masked whole no mask stands for
    anything, or the answer would tell which names and how many items there are. A list with a mask is taken as it was
    shown and no other way: a schema may compare its items (``uniqueItems``), and would tell a guess from a secret.
    """
    try:
        return dict(_restored(typed, known, known if hidden is None else hidden, field))
    except KeyError:
        raise BadInput(
            f"{MASK} stands for a secret that is not known here.", remedy="Type the secret.", field=field
        ) from None


def _shown_option(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: each if key.lower() in _PLAIN_HEADERS else MASK for key, each in value.items()}
    return MASK if isinstance(value, list) and value and name not in _PLAIN_LISTS else value


def _says_so(name: str, spoken: Spoken) -> bool:
    return _tells(name) or spoken.says_secret


def _labels(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key.lower() in _LABELS}


def _is_argument(values: Sequence[Any], n: int) -> bool:
    """Whether the ``n``-th value follows an argument of a program that tells, whatever it looks like itself."""
    before = values[n - 1] if n else None
    if not isinstance(before, str):
        return False
    if before in _ARGUMENTS_OF_MUCH:
        return isinstance(values[n], str) and looks_like_key(values[n])
    return before.startswith("-") and "=" not in before and (_tells(before) or _hints(before))


def _restored(typed: Any, known: Any, hidden: Any, at: str) -> Any:
    if typed == MASK:
        if known is _ABSENT:
            raise KeyError(MASK)
        return known
    if isinstance(typed, Mapping):
        before, seen = (known, hidden) if _are(Mapping, known, hidden) else ({}, {})
        if _labels(typed) != _labels(seen) and any(typed[key] == MASK for key in typed if key.lower() in _LABELLED):
            # Under another label it would be seen in the run.
            raise KeyError(MASK)
        return {
            name: _restored(value, before.get(name, _ABSENT), seen.get(name, _ABSENT), f"{at}.{name}")
            for name, value in typed.items()
        }
    if isinstance(typed, list) and masks_in(typed):
        if not _are(list, known, hidden) or not masks_in(hidden):
            raise KeyError(MASK)
        if typed != hidden:
            raise BadInput(
                f"{at} holds a secret, and is not as it was shown.",
                remedy="Leave the list as it was shown, or type all of it anew.",
                field=at.partition(".")[0],
            )
        return known
    return typed


def _are(kind: type, *values: Any) -> bool:
    return all(isinstance(each, kind) for each in values)
