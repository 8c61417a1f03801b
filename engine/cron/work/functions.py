"""Python functions as work: registered under a name, with parameters whose schema follows from their types."""

from __future__ import annotations

import contextlib
import inspect
import json
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

import msgspec

from engine.core.error_text import shortened, storable, text_of, words_of
from engine.core.errors import ConfigurationError, NotThere
from engine.core.prepared import prepared
from engine.core.redaction import redact_text
from engine.core.secret_values import SecretValues
from engine.cron.work.call import SUMMARY_LIMIT, Hopeless, RunContext, Stopped, WorkOutcome

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class JobFunction:
    """A function that jobs may name."""

    name: str
    function: Callable[..., Any]
    #: A ``msgspec.Struct`` made of its parameters.
    parameters: Any
    #: Whether its first parameter is the :class:`RunContext`.
    wants_context: bool

    @property
    def place(self) -> str:
        """``module:function``."""
        return f"{self.function.__module__}:{self.function.__qualname__}"

    @property
    def words(self) -> str:
        """The first line of its docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its parameters."""
        (schema,), definitions = msgspec.json.schema_components(
            [prepared(self.parameters)], ref_template="#/$defs/{name}"
        )
        found: dict[str, Any] = dict(definitions.pop(self.parameters.__name__, schema))
        return {**found, "$defs": definitions} if definitions else found

    def run(self, context: RunContext) -> WorkOutcome:
        """Call it. What it prints goes to the run's log; what it returns, as JSON, is the summary."""
        try:
            given = msgspec.convert(dict(context.call.parameters), prepared(self.parameters), strict=True)
        except msgspec.ValidationError as error:
            return WorkOutcome(
                False, f"its parameters do not fit {self.name}: {words_of(error, secrets=context.secrets)}", again=False
            )
        arguments = {name: getattr(given, name) for name in self.parameters.__struct_fields__}
        first = (context,) if self.wants_context else ()
        try:
            with contextlib.redirect_stdout(context.log), contextlib.redirect_stderr(context.log):
                returned = self.function(*first, **arguments)
        except Stopped as stopped:
            return WorkOutcome(False, words_of(stopped))
        except Hopeless as error:
            return WorkOutcome(False, words_of(error, secrets=context.secrets), again=False)
        except SystemExit as left:
            return WorkOutcome(False, context.secrets.out_of(f"it left by sys.exit({left.code!r})"))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is how the work ended
            context.log.write(traceback.format_exc())
            return WorkOutcome(False, text_of(error, secrets=context.secrets))
        return WorkOutcome(True, summary=_summary(returned, context.secrets))


_lock = threading.Lock()
_registered: dict[str, JobFunction] = {}


def job_function(name: str) -> Callable[[Function], Function]:
    """Make a function one that jobs may name: ``@job_function("hotel.close-of-day")``.

    A first parameter annotated :class:`RunContext` is given it; all others must be annotated with types that JSON can
    be read into, and are what a run's parameters are checked against. It is called once for each attempt; what it does
    twice must be harmless, or guarded by the run's number. Its name says who may have it called, where names are in
    namespaces. Raises ``ConfigurationError`` for what cannot be called so,
    and for a name that another function has.
    """

    def register(function: Function) -> Function:
        made = _described(name, function)
        with _lock:
            known = _registered.setdefault(name, made)
            if known.place != made.place:
                raise ConfigurationError(
                    f"Two functions are called {name}: {known.place} and {made.place}.",
                    remedy="Give one of them another name.",
                    field="function",
                )
            # The same function once more is a reload of its module.
            _registered[name] = made
        return function

    return register


def job_functions() -> list[JobFunction]:
    """All that are registered, by name."""
    with _lock:
        return [_registered[name] for name in sorted(_registered)]


def find_function(name: str) -> JobFunction:
    """The function of that name; raises :class:`NotThere`."""
    with _lock:
        found = _registered.get(name)
    if found is None:
        raise NotThere(
            f"No function is called {name!r} here.",
            remedy="Register it with @job_function in a module job_functions of an installed app.",
            field="target",
        )
    return found


def forget_functions(*names: str) -> None:
    """Forget those of these names, where they are known; for tests."""
    with _lock:
        for name in names:
            _registered.pop(name, None)


def _described(name: str, function: Callable[..., Any]) -> JobFunction:
    if not name or len(name) > 200:
        raise ConfigurationError("A function needs a name of 1 to 200 characters.", field="function")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ConfigurationError(
            f"{function.__qualname__} cannot be a job: calling it does not run it.",
            remedy="Register a plain function that does the work before it returns.",
            field="function",
        )
    try:
        hints = get_type_hints(function)
    except NameError as error:
        raise ConfigurationError(
            f"A type of {function.__qualname__} is not known: {error}.",
            remedy="Import it where the function stands, not for type checkers alone.",
            field="function",
        ) from error
    wanted = list(inspect.signature(function).parameters.values())
    wants_context = bool(wanted) and hints.get(wanted[0].name) is RunContext
    fields: list[Any] = []
    for one in wanted[1 if wants_context else 0 :]:
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) or one.name not in hints:
            raise ConfigurationError(
                f"{function.__qualname__} cannot be a job: nobody can tell what its parameter {one.name} takes.",
                remedy="Annotate it, and take no *args and no **kwargs.",
                field="function",
            )
        fields.append((one.name, hints[one.name], *([] if one.default is one.empty else [one.default])))
    try:
        parameters = msgspec.defstruct("Parameters", fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.schema(prepared(parameters))
        for one in fields:
            if len(one) == 3:
                msgspec.convert(msgspec.to_builtins(one[2]), prepared(one[1]), strict=True)
    except (TypeError, msgspec.ValidationError) as error:
        raise ConfigurationError(
            f"The parameters of {function.__qualname__} cannot be read from JSON: {words_of(error)}.",
            remedy="Use str, int, float, bool, lists, dates, or structs of these.",
            field="function",
        ) from error
    return JobFunction(name, function, parameters, wants_context)


def _summary(returned: object, secrets: SecretValues) -> str:
    """What it returned, in a line: the work is done, so whatever that is must not fail it."""
    if returned is None:
        return ""
    try:
        text = returned if isinstance(returned, str) else json.dumps(returned, default=str, ensure_ascii=False)
    except Exception:  # noqa: BLE001 - what it returned may have a __str__ of its own, which raises whatever it likes
        text = f"a {type(returned).__name__} that JSON cannot say"
    # With a margin, or half of a secret that the cut goes through would be left; and not all of it, for what is looked
    # through holds the interpreter, and with it the lease.
    said = storable(text, SUMMARY_LIMIT * 10)
    return shortened(redact_text(secrets.out_of(said, cut=len(said) >= SUMMARY_LIMIT * 10)), SUMMARY_LIMIT)
