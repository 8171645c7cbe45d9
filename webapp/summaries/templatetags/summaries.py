"""A paper's summary and claims, for the pages of other apps."""

import re

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from webapp.summaries.client import Server
from webapp.summaries.models import Claim, Summary
from webapp.ui.templatetags.ui import tex

register = template.Library()


@register.simple_tag
def model_that_summarises() -> Server | None:
    """The model that is connected, if one is."""
    return Server.configured()


@register.filter
def detail(claim: Claim, name: str) -> SafeString:
    """A detail of a claim, the phrases of it that the paper does not give marked."""
    written: str = getattr(claim, name)
    missing = [re.escape(phrase) for phrase in claim.not_given.get(name, ()) if phrase]
    if not missing:
        return tex(written)
    parts = re.split(f"({'|'.join(missing)})", written)
    shown = (
        format_html('<mark class="unverified">{}</mark>', tex(part)) if index % 2 else tex(part)
        for index, part in enumerate(parts)
    )
    return format_html_join("", "{}", ((part,) for part in shown))


@register.filter
def language_name(code: str) -> str:
    """Return the name of a language in itself."""
    return str(Summary.Language(code).label)
