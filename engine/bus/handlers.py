"""Handlers: plain typed functions, registered by a decorator."""

from __future__ import annotations

import inspect
import threading
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from engine.bus.context import Context
from engine.bus.errors import Unrecoverable
from engine.bus.message import UNREADABLE, Message
from engine.bus.policy import DEFAULT_BACKOFF_S, BreakerPolicy, RetryPolicy, SubscriptionPolicy
from engine.core.error_text import words_of
from engine.core.errors import ConfigurationError
from engine.core.prepared import prepared

__all__ = ["Context", "Registration", "clear", "find", "registrations", "subscription"]

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Registration:
    """A decorated function and what it asked for. ``handler`` is what a consumer calls."""

    policy: SubscriptionPolicy
    function: Callable[..., Any]
    handler: Callable[[Message, Context], object]
    #: ``module:function``: how the console names it.
    name: str

    @property
    def topic(self) -> str:
        return self.policy.topic

    @property
    def group(self) -> str:
        return self.policy.group


_lock = threading.Lock()
_registered: dict[tuple[str, str], Registration] = {}


def subscription(
    *,
    topic: str,
    group: str,
    transactional: bool = False,
    concurrency: int = 4,
    max_attempts: int = 5,
    backoff_s: tuple[float, ...] = DEFAULT_BACKOFF_S,
    lease_s: float = 30.0,
    ordering: str = "none",
    on_failed_head: str = "block",
    max_handler_s: float = 0.0,
    breaker: BreakerPolicy = BreakerPolicy(),  # noqa: B008 - frozen
) -> Callable[[Function], Function]:
    """Make a function the handler of a subscription.

    The function takes the payload, and the :class:`Context` if it has a second parameter. The first parameter's
    annotation says what it is given: a ``msgspec.Struct``, dataclass or ``TypedDict`` (checked), ``dict`` or ``Any``
    (the JSON as it is), ``bytes`` (the payload's bytes) or :class:`Message` (the whole envelope). A payload that does
    not fit the type is dead at once, with the field named. Raises ``ConfigurationError`` for a function or an option
    that cannot work, and for a second handler of one subscription.
    """
    policy = SubscriptionPolicy(
        topic=topic,
        group=group,
        retry=RetryPolicy(max_attempts=max_attempts, backoff_s=backoff_s),
        concurrency=concurrency,
        lease_s=lease_s,
        transactional=transactional,
        ordering=ordering,
        on_failed_head=on_failed_head,
        max_handler_s=max_handler_s,
        breaker=breaker,
    )

    def register(function: Function) -> Function:
        name = f"{function.__module__}:{function.__qualname__}"
        registration = Registration(policy, function, adapt(function), name)
        with _lock:
            known = _registered.setdefault((topic, group), registration)
            if known.name != name:
                raise ConfigurationError(
                    f"{topic}/{group} has two handlers: {known.name} and {name}.",
                    remedy="Give one of them a group of its own.",
                    field="group",
                )
            # The same function once more is a reload of its module.
            _registered[topic, group] = registration
        return function

    return register


def registrations() -> list[Registration]:
    """All handlers registered so far, by topic and group."""
    with _lock:
        return [_registered[key] for key in sorted(_registered)]


def find(topic: str, group: str) -> Registration | None:
    """The handler of a subscription, if one is registered."""
    with _lock:
        return _registered.get((topic, group))


def clear() -> None:
    """Forget all registrations; for tests."""
    with _lock:
        _registered.clear()


def adapt(function: Callable[..., Any]) -> Callable[[Message, Context], object]:
    """Turn a typed function into a handler; see :func:`subscription`."""
    name = getattr(function, "__qualname__", repr(function))
    if inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"Handler {name} is a coroutine.", remedy="Write a plain function; it runs in a thread of its own."
        )
    parameters = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    if len(parameters) not in (1, 2):
        raise ConfigurationError(
            f"Handler {name} takes {len(parameters)} positional parameters.",
            remedy="Take the payload, and the context if you need it.",
        )
    read = _reader_for(_annotation(function, parameters[0], name), name)
    if len(parameters) == 1:
        return lambda message, context: function(read(message))
    return lambda message, context: function(read(message), context)


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter, name: str) -> Any:
    if parameter.annotation is inspect.Parameter.empty:
        return Any
    try:
        return typing.get_type_hints(function)[parameter.name]
    except NameError as error:
        raise ConfigurationError(
            f"The annotations of handler {name} cannot be read: {error}.",
            remedy="Define or import the type at the top of the module.",
        ) from error


def _reader_for(kind: Any, name: str) -> Callable[[Message], Any]:
    if kind is Message:
        return lambda message: message
    if kind is bytes:
        return Message.payload
    try:
        if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
            raise TypeError(f"{kind!r} is not a type of data")
        decoder = msgspec.json.Decoder(prepared(dict[str, Any] if kind in (dict, Mapping) else kind))
    except TypeError as error:
        raise ConfigurationError(
            f"Handler {name} takes a type that JSON cannot be read into: {error}.",
            remedy="Use a msgspec.Struct, a dataclass, dict, bytes or Message.",
        ) from error

    def read(message: Message) -> Any:
        if message.data_base64 is not None:
            if bytes(message.data):
                raise Unrecoverable("the envelope has both data and data_base64, and nobody knows which is the payload")
            raise Unrecoverable(f"the payload is bytes ({message.datacontenttype or 'of no type'}), not JSON in data")
        try:
            return decoder.decode(bytes(message.data) or b"null")
        except UNREADABLE as error:
            # msgspec's text names the field: "Expected `int`, got `str` - at `$.nights`".
            raise Unrecoverable(f"the payload does not fit: {words_of(error)}") from error

    return read
