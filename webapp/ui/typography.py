"""Templates whose pages follow the typography of their language.

A template parts its sentences by blanks and line breaks, and Chinese sentences have none between
them.
"""

import re
from typing import Any

from django.http import HttpRequest
from django.template import TemplateDoesNotExist
from django.template.backends.django import DjangoTemplates, Template, reraise
from django.utils.safestring import mark_safe

from webapp.ui.language import current_language

# Tags keep their attributes, and what a reader typed or a program wrote stays as it is.
_TAG = re.compile(r"<[^>]*>")
_BLANKS = re.compile(
    r"(?<=[。！？；：，])(?P<after>(?:\s|</?(?:a|b|strong|span)\b[^>]*>)+)"
    r"|<(?P<name>textarea|pre|script|style)\b.*?</(?P=name)>|<[^>]*>",
    re.DOTALL,
)


def without_blanks(html: str) -> str:
    """Return Chinese HTML without the white space that follows its punctuation."""

    def keep_tags(match: re.Match[str]) -> str:
        after = match["after"]
        return match[0] if after is None else "".join(_TAG.findall(after))

    return _BLANKS.sub(keep_tags, html)


class PageTemplate(Template):
    """A template whose HTML is set by the rules of the page's language."""

    def render(
        self, context: dict[str, Any] | None = None, request: HttpRequest | None = None
    ) -> str:
        """Render the template; a text that is not HTML stays as it is."""
        text = super().render(context, request)
        if current_language() == "zh" and str(self.origin.template_name).endswith(".html"):
            return mark_safe(without_blanks(text))  # noqa: S308 - only white space goes
        return text


class Templates(DjangoTemplates):
    """Django's templates, as pages."""

    def get_template(self, template_name: str) -> PageTemplate:
        """Return a page. Raises TemplateDoesNotExist."""
        try:
            return PageTemplate(self.engine.get_template(template_name), self)
        except TemplateDoesNotExist as error:
            reraise(error, self)
            raise
