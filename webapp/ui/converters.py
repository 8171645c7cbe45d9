"""Path converters for dates, methods and feed formats, for the URLs of all apps."""

from datetime import date

from django.urls import register_converter
from django.urls.converters import SlugConverter, StringConverter

from methods import registry
from methods.spec import Method
from webapp.ui.feeds import FORMATS


class DateConverter(StringConverter):
    """A date as `2026-03-12`."""

    regex = r"\d{4}-\d{2}-\d{2}"

    def to_python(self, value: str) -> date:  # type: ignore[override]
        """The date. Raises ValueError, which Django takes as no match, if there is no such day."""
        return date.fromisoformat(value)


class MethodConverter(SlugConverter):
    """An installed method, by its slug."""

    def to_python(self, value: str) -> Method:  # type: ignore[override]
        """The method. Raises UnknownNameError, a ValueError and so no match."""
        return registry.get(value)


class SuffixConverter(StringConverter):
    """`rss`, `atom`, `json` or `md`."""

    regex = "|".join(FORMATS)


register_converter(DateConverter, "date")
register_converter(MethodConverter, "method")
register_converter(SuffixConverter, "suffix")
