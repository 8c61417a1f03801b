"""The ASGI application of the web role."""

from __future__ import annotations

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
application = get_asgi_application()
