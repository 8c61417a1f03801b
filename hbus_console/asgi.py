"""The ASGI application of the web role."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from hbus_console.body_limit import BodyLimit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
_console = get_asgi_application()
# Not at the top: it needs the models, which are there from here on.
from hbus_console.accounts.callers import refusal  # noqa: E402
from hbus_console.jobs.pings.body import PingBodies  # noqa: E402

application = PingBodies(_console, BodyLimit(_console, refusal))
