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
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from webapp.readers import links

admin.site.unregister(User)


class ReaderForm(UserChangeForm):  # type: ignore[type-arg]
    """Django's, but the only administrator keeps their rights."""

    def clean(self) -> dict[str, Any]:
        """Refuse to take the rights of the last one."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        stays = data.get("is_superuser") and data.get("is_active")
        if not stays and links.lock_administrators() == {self.instance.pk}:
            raise ValidationError(_("This is the only administrator."))
        return data


@admin.register(User)
class ReaderAdmin(UserAdmin):  # type: ignore[type-arg]
    """Django's, but one administrator always remains."""

    form = ReaderForm

    # One transaction from the check to the end of a deletion of many readers.
    @transaction.atomic
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """The list, whose actions delete."""
        return super().changelist_view(request, extra_context)

    def get_deleted_objects(
        self, objs: QuerySet[User] | Sequence[User], request: HttpRequest
    ) -> Any:
        """What a deletion takes; no administrator where none would remain."""
        found, counts, perms_needed, protected = super().get_deleted_objects(objs, request)
        if not links.lock_administrators() - {one.pk for one in objs}:
            protected = [*protected, _("This is the only administrator.")]
        return found, counts, perms_needed, protected
