from __future__ import annotations

from django.urls import path

from hbus_console.quotas.views import (
    advice,
    books,
    forms,
    lists,
    plans,
    policy,
    several_plans,
    suggestions,
    tenants,
    trying,
)

app_name = "quotas"
_ONE = "quotas/policies/<str:policy>"
urlpatterns = [
    path("quotas/", lists.quotas, name="list"),
    path("quotas/chart/", lists.chart, name="chart"),
    path("quotas/try/", trying.bench, name="try"),
    path("quotas/try/chart/", trying.chart, name="try-chart"),
    path("quotas/suggest/policies/", suggestions.policies, name="suggest-policies"),
    path("quotas/suggest/plans/", suggestions.plans, name="suggest-plans"),
    path("quotas/new/", forms.new, name="new"),
    # A program is called MAKER/NAME.
    path("quotas/tenants/<path:tenant>/", tenants.tenant, name="tenant"),
    path("quotas/tenant-chart/", tenants.chart, name="tenant-chart"),
    path("quotas/plans/", plans.plans, name="plans"),
    path("quotas/plans/set/", plans.set_one, name="set-plan"),
    path("quotas/plans/several/", several_plans.several, name="set-plans"),
    path("quotas/versions/", books.books, name="books"),
    path("quotas/versions/<int:book>/", books.book, name="book"),
    path("quotas/versions/<int:book>/roll-back/", books.roll_back_to, name="roll-back"),
    path(f"{_ONE}/", policy.detail, name="policy"),
    path(f"{_ONE}/advice/", advice.advice, name="advice"),
    path(f"{_ONE}/settings/", forms.settings, name="settings"),
    path(f"{_ONE}/versions/<int:version>/restore/", policy.restore, name="restore"),
    path(f"{_ONE}/promote/", policy.promote, name="promote"),
    path(f"{_ONE}/delete/", policy.delete, name="delete"),
]
