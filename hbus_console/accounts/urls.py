from __future__ import annotations

from django.urls import path

from hbus_console.accounts.views import access, session, users

app_name = "accounts"
urlpatterns = [
    path("login/", session.login, name="login"),
    path("logout/", session.logout, name="logout"),
    path("password/", session.password, name="password"),
    path("access/", access.access, name="access"),
    path("access/tokens/new/", access.new_token, name="token-new"),
    path("access/tokens/<slug:prefix>/revoke/", access.revoke_token, name="token-revoke"),
    path("access/users/new/", users.new_user, name="user-new"),
    path("access/users/<str:username>/", users.user, name="user"),
]
