from __future__ import annotations

from django.urls import path

from hbus_console.deadletters import views

app_name = "deadletters"
urlpatterns = [
    path("", views.letters, name="list"),
    path("export", views.export, name="export"),
    path("<int:letter_id>/redrive", views.redrive, name="redrive"),
    path("<int:letter_id>/edit", views.edit, name="edit"),
    path("<int:letter_id>/discard", views.discard, name="discard"),
]
