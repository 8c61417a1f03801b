from __future__ import annotations

from django.urls import URLPattern, URLResolver

app_name = "deadletters"
urlpatterns: list[URLPattern | URLResolver] = []
