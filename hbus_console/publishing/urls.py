from __future__ import annotations

from django.urls import path

from hbus_console.publishing import views

app_name = "publishing"
urlpatterns = [path("publish/", views.publish, name="publish")]
