from __future__ import annotations

from django.urls import path

from hbus_console.schemas import views

app_name = "schemas"
urlpatterns = [path("topics/<str:name>/schema/", views.schema, name="schema")]
