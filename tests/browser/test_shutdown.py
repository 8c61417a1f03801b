"""An open stream of live figures must not hold up the end of the web role."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from tests.installation import RunningInstallation

_CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
_PASSWORD = re.compile(r"password\s+(\S+)")


def test_an_open_stream_ends_with_the_installation(tmp_path: Path) -> None:
    installation = RunningInstallation(tmp_path / "state", roles="web").start()
    try:
        password = _PASSWORD.search(installation.output())
        assert password
        with httpx.Client(base_url=installation.url, timeout=15) as client:
            token = _CSRF.search(client.get("/login/").text)
            assert token
            form = {"username": "admin", "password": password.group(1), "csrfmiddlewaretoken": token.group(1)}
            assert client.post("/login/", data=form).status_code == 302
            with client.stream("GET", "/live/", headers={"Accept-Encoding": "identity"}) as stream:
                lines = stream.iter_lines()
                assert any(line.startswith("data: ") for line in lines)
                assert installation.stop() < 5
    finally:
        installation.end()
