"""What Django's own rules for passwords let pass."""

from __future__ import annotations

import re

from django.contrib.auth.password_validation import UserAttributeSimilarityValidator
from django.core.exceptions import ValidationError

from hbus_console.accounts.models import User


class NotOneselfRepeated:
    """Refuses nothing but a name of the user, over and over: the longer that is, the less alike it seems to Django."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Raises ``ValidationError``."""
        for attribute in UserAttributeSimilarityValidator.DEFAULT_USER_ATTRIBUTES:
            whole = str(getattr(user, attribute, None) or "").lower()
            for name in {whole, *re.split(r"\W+", whole)}:
                if name and not re.sub(r"[\W_]", "", password.lower().replace(name, "")):
                    raise ValidationError("The password is nothing but your name, repeated.", code="name_repeated")

    def get_help_text(self) -> str:
        """What Django shows beside a form."""
        return "Your password can’t be your name, repeated."
