"""arXiv's identifiers and categories in URLs; old identifiers contain a slash."""

from django.urls import register_converter
from django.urls.converters import StringConverter

from webapp.papers.identifiers import CATEGORY, IDENTIFIER, VERSION
from webapp.ui import converters  # noqa: F401 - whoever imports these gets the shared ones too


class ArxivIdConverter(StringConverter):
    """`2512.14925` or `hep-th/9901001`, as arXiv writes them, with a version or without."""

    regex = f"{IDENTIFIER}(?:{VERSION})?"


class CategoryConverter(StringConverter):
    """`cs.CL`, `hep-th`, `cond-mat.str-el`."""

    regex = CATEGORY


register_converter(ArxivIdConverter, "arxiv")
register_converter(CategoryConverter, "arxiv_category")
