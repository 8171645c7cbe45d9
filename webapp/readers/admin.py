"""Readers in Django's admin, which leaves the site an administrator."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _

from webapp.readers import links

admin.site.unregister(User)


class ReaderForm(UserChangeForm):  # type: ignore[type-arg]
    """Django's form, which leaves the only administrator their rights."""

    def clean(self) -> dict[str, Any]:
        """Refuse to take the rights of the only administrator."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        stays = data.get("is_superuser") and data.get("is_active")
        if not stays and links.lock_administrators() == {self.instance.pk}:
            raise ValidationError(_("This is the only administrator."))
        return data


@admin.register(User)
class ReaderAdmin(UserAdmin):  # type: ignore[type-arg]
    """Django's pages, which refuse to remove the only administrator."""

    form = ReaderForm

    # Its action deletes many readers: one transaction from the check to the end.
    changelist_view = transaction.atomic(UserAdmin.changelist_view)

    def get_deleted_objects(
        self, objs: QuerySet[User] | Sequence[User], request: HttpRequest
    ) -> Any:
        """List what would be deleted; "protected" where no administrator would remain."""
        listed, counts, perms_needed, protected = super().get_deleted_objects(objs, request)
        if not links.lock_administrators() - {reader.pk for reader in objs}:
            protected = [*protected, _("This is the only administrator.")]
        return listed, counts, perms_needed, protected
