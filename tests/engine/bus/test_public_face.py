from __future__ import annotations

import subprocess
import sys

import engine.bus


def test_everything_named_is_there() -> None:
    assert sorted(engine.bus.__all__) == engine.bus.__all__
    assert all(hasattr(engine.bus, name) for name in engine.bus.__all__)


def test_the_engine_needs_neither_django_nor_celery_nor_an_http_client_to_start() -> None:
    program = (
        "import sys, engine.bus;"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'django', 'celery', 'kombu', 'httpx'}))"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert told.stdout.strip() == "[]"
