"""By whose rights a run is done: those that the account has now which said last what the job does."""

from __future__ import annotations

from hbus_console.access.permissions import SYSTEM, Actor, Forbidden
from hbus_console.accounts.actors import actor_of
from hbus_console.accounts.models import User

_SYSTEM, _USER = "system", "user:"


def identity_of(actor: Actor) -> str:
    """What a job keeps of who said what it does: the account, also where a token of its spoke."""
    if actor.user_id is None:
        # hbus itself, or who may run commands on its machine and holds database and keys anyway.
        return _SYSTEM
    return f"{_USER}{actor.name.partition('/')[0]}"


def actor_named(identity: str) -> Actor:
    """With the rights of this moment. Raises :class:`Forbidden` when nobody is left who has them."""
    if identity == _SYSTEM:
        return SYSTEM
    user = User.objects.filter(username=identity.removeprefix(_USER)).prefetch_related("grants").first()
    found = actor_of(user) if user is not None else None
    if found is None or not found.is_authenticated:
        raise Forbidden(
            f"{words_of_identity(identity)} may do nothing any more, and the job acts by their rights.",
            remedy="Somebody who may do what the job does saves it anew.",
        )
    return found


def words_of_identity(identity: str) -> str:
    """As a page names it."""
    return "hbus itself" if identity == _SYSTEM else identity.removeprefix(_USER) or "nobody"
