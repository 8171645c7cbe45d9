"""What papers compare with, extended by the site's administrators."""

from django.contrib import admin

from webapp.claims.models import Comparator


@admin.register(Comparator)
class ComparatorAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Comparators besides the built-in ones; abstracts are read again when one changes."""

    list_display = ("name", "written")
