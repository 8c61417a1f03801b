from __future__ import annotations

from django.urls import path

from hbus_console.ui.views.kit import kit, kit_chart
from hbus_console.ui.views.live import live
from hbus_console.ui.views.theme import theme

app_name = "ui"
urlpatterns = [
    path("live/", live, name="live"),
    path("theme/", theme, name="theme"),
    path("ui-kit/", kit, name="kit"),
    path("ui-kit/chart/", kit_chart, name="kit-chart"),
]
