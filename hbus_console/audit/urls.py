from __future__ import annotations

from django.urls import path

from hbus_console.audit import posted, views

app_name = "audit"
urlpatterns = [
    path("", views.listing, name="list"),
    path("verify/", views.verify, name="verify"),
    path("posted/", posted.posted, name="posted"),
    path("export/", views.export, name="export"),
    path("<int:seq>/", views.entry, name="entry"),
]
