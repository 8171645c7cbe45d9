"""How dates, methods and formats stand in addresses of every room."""

from datetime import date

from django.urls import register_converter
from django.urls.converters import SlugConverter, StringConverter

from methods import registry
from methods.spec import Method
from webapp.ui.feeds import FORMATS


class DateConverter(StringConverter):
    """`2026-03-12`, and nothing that is no day of the calendar."""

    regex = r"\d{4}-\d{2}-\d{2}"

    def to_python(self, value: str) -> date:  # type: ignore[override]
        """The date; ValueError, which Django reads as no match, where there is none."""
        return date.fromisoformat(value)


class MethodConverter(SlugConverter):
    """A method that is carried here, by its name."""

    def to_python(self, value: str) -> Method:  # type: ignore[override]
        """The method; UnknownNameError, a ValueError and so no match, where there is none."""
        return registry.get(value)


class SuffixConverter(StringConverter):
    """`rss`, `atom` or `json`."""

    regex = "|".join(FORMATS)


register_converter(DateConverter, "date")
register_converter(MethodConverter, "method")
register_converter(SuffixConverter, "suffix")
