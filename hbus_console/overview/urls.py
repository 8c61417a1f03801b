from __future__ import annotations

from django.urls import path

from hbus_console.overview.views import examples
from hbus_console.overview.views.overview import overview
from hbus_console.overview.views.search import search

app_name = "overview"
urlpatterns = [
    path("", overview, name="overview"),
    path("search/", search, name="search"),
    path("examples/<slug:name>/start/", examples.start, name="start-example"),
]
