"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path

from hbus_console.quotas.api import books, plans, policies, tenants, wants

urlpatterns = [
    path("quota/policies", policies.QuotaPolicies.as_view(), name="quota-policies"),
    path("quota/policies/<str:policy>", policies.OneQuotaPolicy.as_view(), name="quota-policy"),
    path("quota/policies/<str:policy>/versions", policies.PolicyVersions.as_view(), name="quota-policy-versions"),
    path(
        "quota/policies/<str:policy>/versions/<int:version>/restore",
        policies.RestorePolicy.as_view(),
        name="quota-policy-restore",
    ),
    path("quota/policies/<str:policy>/promote", policies.PromoteTrial.as_view(), name="quota-policy-promote"),
    path("quota/books", books.QuotaBooks.as_view(), name="quota-books"),
    path("quota/books/difference", books.BooksDifference.as_view(), name="quota-books-difference"),
    path("quota/books/<int:number>/roll-back", books.RollBack.as_view(), name="quota-books-roll-back"),
    path("quota/plans", plans.TenantPlans.as_view(), name="quota-plans"),
    # A program is called MAKER/NAME.
    path("quota/plans/<path:tenant>", plans.PlanOfTenant.as_view(), name="quota-plan"),
    path("quota/tenants/<path:tenant>/series", tenants.SeriesOfTenant.as_view(), name="quota-tenant-series"),
    path("quota/want", wants.WantTokens.as_view(), name="quota-want"),
    path("quota/limits", wants.LimitsOfCaller.as_view(), name="quota-limits"),
]
