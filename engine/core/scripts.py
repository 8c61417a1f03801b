"""Lua scripts lie in files of their own; this reads and calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha1
from importlib.resources.abc import Traversable
from typing import Any

import redis
from redis.exceptions import NoScriptError

from engine.core.store.answered import answered

#: How long replicas are waited for before a write counts as not surely kept, in milliseconds.
REPLICAS_WAIT_MS = 2_000

Arg = str | bytes | int


def wait_for(replicas: int) -> tuple[str, int, int]:
    """The command that waits until replicas have what its connection wrote, and answers how many have it."""
    return ("WAIT", replicas, REPLICAS_WAIT_MS)


#: A file of this name has what the other scripts of its folder share.
COMMON = "common"
_SUFFIX = ".lua"


class Script:
    """One script: its text, and the digest by which a server that has seen it knows it."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.sha = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def load_scripts(folder: Traversable) -> Mapping[str, Script]:
    """The scripts of a folder by the names of their files, each with what they share put in front.

    Of packages it is had by ``files("engine.bus") / "lua"``: these may lie in a zip, as on the executors of a cluster.
    """
    texts = {
        path.name.removesuffix(_SUFFIX): path.read_text(encoding="utf-8")
        for path in folder.iterdir()
        if path.name.endswith(_SUFFIX)
    }
    shared = texts.pop(COMMON, "")
    return {name: Script(name, f"{shared}\n{text}" if shared else text) for name, text in texts.items()}


class ScriptFolder:
    """The scripts of one folder, each called by its file name. Thread-safe."""

    def __init__(self, client: redis.Redis, folder: Traversable) -> None:
        self._client = client
        self._scripts = load_scripts(folder)

    def call(self, name: str, keys: Sequence[str], args: Sequence[Arg]) -> Any:
        """Run a script; raises :class:`~engine.core.errors.Unavailable` when the store is away or refuses it."""
        script = self._scripts[name]
        with answered():
            try:
                return self._client.evalsha(script.sha, len(keys), *keys, *args)
            except NoScriptError:
                return self._client.eval(script.text, len(keys), *keys, *args)

    def call_each(
        self, name: str, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]], *, apart: bool = False
    ) -> list[Any]:
        """Run a script once for each of ``calls``, in one round trip; raises as :meth:`call`.

        Each call is atomic by itself: those before one that fails have happened, and it is not known which. ``apart``:
        where the script breaks on what lies there, its ``ResponseError`` stands in the place of that answer alone.
        """
        script = self._scripts[name]
        with answered(several=True):
            answers = self._pipelined("EVALSHA", script.sha, calls)
            # On a cluster some servers may know it and have run it; only the others are asked again, with its text.
            unknown = [number for number, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            if unknown:
                again = self._pipelined("EVAL", script.text, [calls[number] for number in unknown])
                for number, answer in zip(unknown, again, strict=True):
                    answers[number] = answer
        for answer in answers:
            if isinstance(answer, Exception):
                try:
                    with answered(several=True):
                        raise answer
                except redis.ResponseError:
                    if not apart:
                        raise
        return answers

    def _pipelined(self, command: str, script: str, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for keys, args in calls:
            pipeline.execute_command(command, script, len(keys), *keys, *args)  # type: ignore[no-untyped-call]
        return pipeline.execute(raise_on_error=False)

    def call_replicated(self, name: str, keys: Sequence[str], args: Sequence[Arg], replicas: int) -> tuple[Any, int]:
        """Run a script; its result, and how many replicas had what it wrote in time. Raises as :meth:`call`, and
        ``AnswerLost`` where the connection broke while both commands were being sent: the first may have gone."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.execute_command("EVAL", self._scripts[name].text, len(keys), *keys, *args)  # type: ignore[no-untyped-call]
        pipeline.execute_command(*wait_for(replicas))  # type: ignore[no-untyped-call]
        with answered(several=True):
            result, reached = pipeline.execute(raise_on_error=False)
            if isinstance(result, Exception):
                raise result
        return result, reached if isinstance(reached, int) else 0
