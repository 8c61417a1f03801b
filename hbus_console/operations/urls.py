from __future__ import annotations

from django.urls import path

from hbus_console.operations import views

app_name = "operations"
urlpatterns = [
    path("", views.operations, name="list"),
    path("plan/<slug:kind>/", views.plan, name="plan"),
    path("<int:operation_id>/", views.operation, name="operation"),
    path("<int:operation_id>/pause/", views.pause, name="pause"),
    path("<int:operation_id>/resume/", views.resume, name="resume"),
    path("<int:operation_id>/cancel/", views.cancel, name="cancel"),
]
