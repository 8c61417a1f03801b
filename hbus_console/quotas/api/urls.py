"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path

from hbus_console.quotas.api import books, plans, policies, want

_ONE = "quota-policies/<str:policy>"

urlpatterns = [
    path("quota-policies", policies.Policies.as_view(), name="quota-policies"),
    path(_ONE, policies.OnePolicy.as_view(), name="quota-policy"),
    path(f"{_ONE}/versions", policies.PolicyVersions.as_view(), name="quota-policy-versions"),
    path(f"{_ONE}/restore", policies.RestorePolicy.as_view(), name="quota-policy-restore"),
    path(f"{_ONE}/promote", policies.PromoteTrial.as_view(), name="quota-policy-promote"),
    path("quota-books", books.Books.as_view(), name="quota-books"),
    path("quota-books/<int:number>/difference", books.BookDifference.as_view(), name="quota-book-difference"),
    path("quota-books/<int:number>/roll-back", books.RollBack.as_view(), name="quota-book-roll-back"),
    path("quota-plans", plans.Plans.as_view(), name="quota-plans"),
    path("quota-plans/<str:tenant>", plans.OnePlan.as_view(), name="quota-plan"),
    path("quota/want", want.WantTokens.as_view(), name="quota-want"),
]
