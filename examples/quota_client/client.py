"""A limiter that shares a limit with all others by hbus's REST API; nothing but the standard library. See README.md."""

import json
import math
import random
import threading
import time
import urllib.request
import uuid
from typing import Any
from urllib.error import HTTPError

CLOSED = {"limited": True, "on_loss": "closed", "fallback": 0.0}


class QuotaClient:
    """Thread-safe. ``allow(n)`` takes ``n`` tokens if they are there; it waits for an answer only where none are.

    Without an answer the policy says how it goes on. Who is refused (4xx) takes nothing, and ``refused`` says why.
    """

    def __init__(self, url: str, token: str, *, node: str, service: str, resource: str,
                 timeout_s: float = 1.0, clock: Any = time.monotonic) -> None:  # fmt: skip
        self._url, self._node, self._timeout_s, self._clock = f"{url}/api/v1/quota/want", node, timeout_s, clock
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._name, self.refused, self._told = {"service": service, "resource": resource}, "", dict[str, Any](CLOSED)
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._permits: list[list[Any]] = []  # id, tokens left, tokens had, when it ends
        self._void: list[tuple[str, int]] = []  # unspent tokens that ended, with the id of their answer
        self._asked_for, self._since, self._demand = 0, clock(), 1.0
        self._again_at, self._probe_at, self._pause_s, self._away = 0.0, 0.0, 0.1, False
        self._flight: dict[str, Any] | None = None  # a Want that may have been carried out, and when it was sent
        self._sent_at, self._alone, self._alone_at, self._spent_alone = 0.0, 1.0, 0.0, 0

    def allow(self, n: int = 1) -> bool:
        with self._lock:
            self._asked_for += n
            taken, low = self._take(n), self._low()
        if taken:
            if low and not self._asking.locked():
                threading.Thread(target=self._ask, args=(0,), daemon=True).start()
            return True
        self._ask(n)
        with self._lock:
            return self._take(n) or (self._away and self._stand_in(n))

    def _take(self, n: int) -> bool:
        while self._permits and (self._permits[0][3] <= self._clock() or not self._permits[0][1]):
            permit, left, _, _ = self._permits.pop(0)
            self._void += [(permit, left)] if left and self._told["limited"] else []
        enough = bool(sum(permit[1] for permit in self._permits) >= n)
        for permit in self._permits if enough else ():
            part = min(n, permit[1])
            permit[1], n = permit[1] - part, n - part
        return enough

    def _low(self) -> bool:
        return bool(sum(each[1] for each in self._permits) * 2 <= max((each[2] for each in self._permits), default=0))

    def _ask(self, n: int) -> None:
        with self._asking:  # single flight: who comes meanwhile finds what this one brings
            now = self._clock()
            with self._lock:
                enough = sum(each[1] for each in self._permits) >= max(n, 1) and not self._low()
                if enough or now < (self._probe_at if self._away else self._again_at):
                    return
                if self._flight is None or now - self._sent_at > 5.0:
                    self._spent_alone += self._flight["repaid"] if self._flight else 0
                    self._flight, self._sent_at = self._new_want(n, now), now
                want = self._flight
            answer = self._send(want)
            with self._lock:
                self._hear(want, answer)

    def _new_want(self, n: int, now: float) -> dict[str, Any]:
        passed, self._since = max(0.01, now - self._since), now
        self._demand, self._asked_for = (self._demand + self._asked_for / passed) / 2, 0
        of, returned = self._void.pop(0) if self._void else ("", 0)
        more = {"returned": returned, "returned_of": of, "repaid": self._spent_alone}
        self._spent_alone, asked = 0, max(n, math.ceil(self._demand * 0.2))
        return {"id": uuid.uuid4().hex, **self._name, "asked": asked, "demand": self._demand, **more}

    def _send(self, want: dict[str, Any]) -> dict[str, Any] | None:
        body = json.dumps({"node": self._node, "wants": [want]}).encode()
        request = urllib.request.Request(self._url, body, self._headers)  # noqa: S310 - an address that its owner gave
        self.refused = ""
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:  # noqa: S310
                return dict(json.load(answer)["allocs"][0])
        except (OSError, ValueError) as error:
            if isinstance(error, HTTPError) and error.code < 500:
                self.refused = error.read(2_000).decode(errors="replace")
            return None

    def _hear(self, want: dict[str, Any], told: dict[str, Any] | None) -> None:
        now, jitter = self._clock(), random.uniform(0.8, 1.2)  # noqa: S311
        if told is None:
            self._told = dict(CLOSED) if self.refused else self._told
            self._alone_at = self._alone_at if self._away else now
            self._away, self._probe_at, self._pause_s = True, now + self._pause_s * jitter, min(2, self._pause_s * 1.5)
            return
        self._flight, self._away, self._pause_s, self._told = None, False, 0.1, told
        self._alone, self._again_at = min(1.0, self._alone), self._sent_at + told["again_s"] * jitter
        if told["granted"]:  # its life counts from the first sending, on this process's own clock
            self._permits.append([want["id"], told["granted"], told["granted"], self._sent_at + told["lifetime_s"]])

    def _stand_in(self, n: int) -> bool:
        now, rate = self._clock(), self._told["fallback"] or 0.0
        self._alone, self._alone_at = min(max(1.0, rate), self._alone + (now - self._alone_at) * rate), now
        if self._told["on_loss"] == "closed" or (self._told["on_loss"] == "fallback" and self._alone < n):
            return False
        self._alone, self._spent_alone = self._alone - n, self._spent_alone + n
        return True
