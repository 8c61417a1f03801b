from __future__ import annotations

from django.urls import path

from tests.toy import views

app_name = "lamps"
urlpatterns = [path("", views.lamps, name="list")]
