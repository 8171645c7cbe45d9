"""How arXiv's identifiers and categories stand in addresses; old identifiers hold a slash."""

from django.urls import register_converter
from django.urls.converters import StringConverter

from webapp.ui import converters  # noqa: F401 - with these, those of every room


class ArxivIdConverter(StringConverter):
    """`2512.14925` or `hep-th/9901001`, as arXiv writes them, with a version or without."""

    regex = r"(?:\d{4}\.\d{4,5}|[a-z]+(?:-[a-z]+)?(?:\.[A-Za-z-]{2,8})?/\d{7})(?:v[1-9]\d{0,2})?"


class CategoryConverter(StringConverter):
    """`cs.CL`, `hep-th`, `cond-mat.str-el`."""

    regex = r"[a-z]+(?:-[a-z]+)?(?:\.[A-Za-z-]{2,10})?"


register_converter(ArxivIdConverter, "arxiv")
register_converter(CategoryConverter, "arxiv_category")
