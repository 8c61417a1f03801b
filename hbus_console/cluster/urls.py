from __future__ import annotations

from django.urls import path

from hbus_console.cluster import views

app_name = "cluster"
urlpatterns = [path("", views.overview, name="overview")]
