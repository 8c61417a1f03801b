"""One child process: in a session of its own, tied to the supervisor's life, its lines handed on as they come."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from hbus_console.supervisor import leash

_CHUNK = 65_536
#: A line longer than this is handed on in pieces, so that a child cannot fill the supervisor's memory.
_LONGEST_LINE = 256 * 1024


class Process:
    """A running child. Start one with :meth:`start`, from the main thread."""

    def __init__(
        self,
        inner: asyncio.subprocess.Process,
        output: asyncio.StreamReader,
        pipe: asyncio.BaseTransport,
        on_line: Callable[[str], None],
    ) -> None:
        self._inner = inner
        self._output = output
        self._pipe = pipe
        self._on_line = on_line
        #: The last line it printed that was not blank: what it died of, as a rule.
        self.last_line = ""
        self._reader = asyncio.create_task(self._pump())

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], on_line: Callable[[str], None]
    ) -> Process:
        """Start ``command`` with both its outputs going to ``on_line``, line by line."""
        parent = os.getpid()
        ours = len(command) > 1 and command[0] == sys.executable
        if not leash.KERNEL_TELLS and not ours:
            command = [sys.executable, leash.__file__, str(parent), *command]
        # A pipe of our own: asyncio's would keep wait() from returning as long as a grandchild holds the other end.
        reading, writing = os.pipe()
        try:
            inner = await asyncio.create_subprocess_exec(
                *command,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                preexec_fn=leash.tie_to_parent(parent),
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        output = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(output)
        file = os.fdopen(reading, "rb", buffering=0)
        try:
            pipe, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, file)
        except BaseException:
            file.close()
            inner.kill()
            raise
        return cls(inner, output, pipe, on_line)

    @property
    def pid(self) -> int:
        return self._inner.pid

    async def wait(self) -> int:
        """Its exit code (negative: the signal that ended it), once it has ended and all it said has been handed on.

        Whatever it left behind in its group is killed.
        """
        code = await self._inner.wait()
        self.kill()
        # A grandchild in a session of its own may hold the pipe open: what it says is no longer ours.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reader, 1.0)
        self._pipe.close()
        return code

    async def stop(self, grace_s: float) -> int:
        """SIGTERM, and SIGKILL to the whole group after ``grace_s``; returns the exit code."""
        with contextlib.suppress(ProcessLookupError):
            self._inner.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self._inner.wait(), grace_s)
        except TimeoutError:
            self.kill()
        return await self.wait()

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def _pump(self) -> None:
        rest = b""
        while chunk := await self._output.read(_CHUNK):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._hand_on(line)
            if len(rest) > _LONGEST_LINE:
                self._hand_on(rest)
                rest = b""
        if rest:
            self._hand_on(rest)

    def _hand_on(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        if not line:
            return
        self.last_line = line
        try:
            self._on_line(line)
        except Exception as error:  # noqa: BLE001 - a child that nobody listens to would soon stand still
            about = {"message": f"A line of process {self.pid} was not handed on", "exception": error}
            asyncio.get_running_loop().call_exception_handler(about)
