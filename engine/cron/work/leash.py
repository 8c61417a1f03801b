"""Holds a command and all that it starts, and ends them: run as a program, by path, with nothing imported but Python's.

``leash.py CONTROL REPORT GRACE_S ASKED OVER PROGRAM ARGUMENT…``: CONTROL and REPORT are descriptors of pipes. The line
``end`` on CONTROL ends all that the command has started (SIGTERM, and after the grace SIGKILL); its end, which is the
worker's death, does so at once. Where the worker says nothing, the time does so, by the monotonic clock: SIGTERM at
ASKED, SIGKILL at OVER, which each line ``until ASKED OVER`` puts off.

On REPORT it says how the command ended: ``exit N``, ``signal N``, ``overdue`` when the time has ended it, or ``error
TEXT`` when it could not be started. Then nothing of the command is left, not even what has put itself into another
session: on Linux whatever loses its parent becomes a child of this process. Where it was ended, a second line says
what was: ``asked to end: java, 4 python3; killed: java``.
"""

import ctypes
import math
import os
import re
import select
import signal
import sys
import time

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LINUX = sys.platform == "linux"
#: Looks for what is left, in seconds between them.
_AGAIN_S = 0.02
#: So many different names of programs are told.
_MOST_NAMES = 20


class Orders:
    """What the worker has said on its pipe until now."""

    def __init__(self, control: int, asked: float, over: float) -> None:
        self.control = control
        #: By the monotonic clock: when the command is to be asked to end, and when nothing of it may be left.
        self.asked, self.over = asked, over
        #: The worker wants it ended.
        self.end = False
        #: The worker is gone.
        self.gone = False
        self._rest = b""

    def read(self) -> None:
        """Wait for what comes next."""
        piece = os.read(self.control, 4_096)
        self.gone = not piece
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"end":
                self.end = True
            else:
                self.asked, self.over = map(float, numbers)


class ToldToEnd:
    """Processes that were told to end, by their numbers, with the names of their programs."""

    def __init__(self) -> None:
        self.asked: dict[int, bytes] = {}
        self.killed: dict[int, bytes] = {}

    def words(self) -> str:
        """A line of its own; empty where none was asked to: what goes with a command that ends is no news."""
        if not self.asked:
            return ""
        killed = f"; killed: {_listed(self.killed)}" if self.killed else ""
        return f"\nasked to end: {_listed(self.asked)}{killed}"


def main(orders: Orders, report: int, grace_s: float, command: "list[str]") -> None:
    libc = ctypes.CDLL(None) if _LINUX else None
    if libc is not None:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for fd in (orders.control, report, wake_read, wake_write):
        os.set_inheritable(fd, False)
    failed_read, failed_write = os.pipe()
    child = os.fork()
    if child == 0:
        _become(command, failed_write, libc)
    os.close(failed_write)
    failed = _all_of(failed_read)
    ended = ToldToEnd()
    said = f"error {failed}" if failed else _hold(child, orders, wake_read, grace_s, ended)
    _end_all(ended)
    try:
        os.write(report, f"{said}{ended.words()}".encode())
    except BrokenPipeError:
        # The worker is gone: nobody is left to be told.
        return


def _become(command: "list[str]", failed: int, libc: "ctypes.CDLL | None") -> None:
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execvp(command[0], command)  # noqa: S606 - that is what it is for
    except OSError as error:
        os.write(failed, (error.strerror or "cannot be started").encode())
    os._exit(127)


def _hold(child: int, orders: Orders, wake: int, grace_s: float, ended: ToldToEnd) -> str:
    """Until the command has ended, and where it was asked to, all that it has started; how the command did."""
    said: str | None = None
    #: When it is killed, once it was asked to end.
    kill_at: float | None = None
    overdue = False
    watched = [orders.control, wake]
    while True:
        said = _ended(child) or said
        if said is not None and (kill_at is None or not _descendants()):
            return "overdue" if overdue else said
        # A grace does not outlast the lease: behind that another may begin.
        due = orders.asked if kill_at is None else min(kill_at, orders.over)
        # What is no child of this process ends without a signal to it: it is looked for.
        until_s = max(0.0, min(due - time.monotonic(), _AGAIN_S if said else 60.0))
        ready, _, _ = select.select(watched, [], [], until_s)
        if wake in ready:
            os.read(wake, 1_000)
        if orders.control in ready:
            orders.read()
        now = time.monotonic()
        if orders.gone and orders.control in watched:
            watched.remove(orders.control)
            kill_at = now
        elif kill_at is None and (orders.end or now >= orders.asked):
            overdue = not orders.end
            kill_at = now + grace_s
            ended.asked |= _signal_all(signal.SIGTERM)
        if kill_at is not None and now >= min(kill_at, orders.over):
            ended.killed |= _signal_all(signal.SIGKILL)
            kill_at, orders.over = now + _AGAIN_S, math.inf


def _ended(child: int) -> "str | None":
    said = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return said or "exit 0"
        if pid == 0:
            return said
        if pid == child:
            said = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {os.WEXITSTATUS(status)}"


def _end_all(ended: ToldToEnd) -> None:
    """Kill what descends from this process until nothing does: what is killed may have left children behind."""
    while True:
        ended.killed |= _signal_all(signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(_AGAIN_S)


def _descendants() -> "set[int]":
    parents = {}
    for name in os.listdir("/proc") if _LINUX else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    # The name of a program may hold blanks and brackets.
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def _signal_all(number: int) -> "dict[int, bytes]":
    """Those that were alive, with the names of their programs."""
    alive = {}
    for pid in _descendants():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
            os.kill(pid, number)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if rest.split()[0] != b"Z":
            alive[pid] = name
    return alive


def _listed(named: "dict[int, bytes]") -> str:
    counted: dict[str, int] = {}
    for name in named.values():
        # It is the process's own to choose.
        text = re.sub(rb"[^\w.+-]", b"?", name).decode()
        counted[text] = counted.get(text, 0) + 1
    words = [f"{count} {name}" if count > 1 else name for name, count in sorted(counted.items())]
    left_out = len(words) - _MOST_NAMES
    return ", ".join([*words[:_MOST_NAMES], *([f"and {left_out} other programs"] if left_out > 0 else [])])


def _all_of(pipe: int) -> str:
    said = b""
    while piece := os.read(pipe, 1_000):
        said += piece
    os.close(pipe)
    return said.decode("utf-8", "replace")


if __name__ == "__main__":
    main(
        Orders(int(sys.argv[1]), float(sys.argv[4]), float(sys.argv[5])),
        int(sys.argv[2]),
        float(sys.argv[3]),
        sys.argv[6:],
    )
