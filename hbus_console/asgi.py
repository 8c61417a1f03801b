"""The ASGI application of the web role."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

from hbus_console.body_limit import BodyLimit

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
application = BodyLimit(get_asgi_application())
