"""Template tags and filters: safe HTML, icons, times and numbers."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django import template
from django.template.context import RequestContext
from django.templatetags.static import static
from django.utils.formats import date_format
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from webapp.ui import markup
from webapp.ui.formulas import mathml
from webapp.ui.personal import is_shared, mark

register = template.Library()
register.filter("plain", markup.plain)
register.filter("translated", gettext)  # words of rows: `templates/ui/words.txt`

_clean = lru_cache(maxsize=8192)(markup.sanitise)
_render = lru_cache(maxsize=1024)(markup.render)
_drawing = lru_cache(maxsize=32)(markup.sanitise_drawing)


@register.filter
def sanitised(html: str) -> SafeString:
    """Stored HTML, sanitised once more, whoever wrote the row."""
    return mark_safe(_clean(html))  # noqa: S308


@register.filter
def sanitised_blocks(html: str) -> SafeString:
    """A stored summary, sanitised: headings, lists and tables may stay."""
    return mark_safe(markup.sanitise_blocks(html))  # noqa: S308


@register.filter
def drawn(svg: str) -> SafeString:
    """An SVG drawing, sanitised."""
    return mark_safe(_drawing(svg))  # noqa: S308


@lru_cache(maxsize=64)
def _icon(name: str, sprite: str) -> SafeString:
    return format_html('<svg class="i" aria-hidden="true"><use href="{}#{}"/></svg>', sprite, name)


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon of the sprite. It is decoration: put text beside it."""
    return _icon(name, static("icons.svg"))


@register.simple_tag(takes_context=True)
def current(context: RequestContext, *views: str) -> str:
    """Marks a menu link if the current page is one of these views."""
    match = context["request"].resolver_match
    is_here = match is not None and match.view_name in views
    return format_html(' aria-current="{}"', "page") if is_here else ""


@register.simple_tag(takes_context=True)
def personal(context: RequestContext, name: str, paper: Any = None) -> SafeString:
    """The personal fragment `personal/NAME.html`; on a shared page its mark."""
    if is_shared(context["request"]):
        key, identifier = (paper.pk, paper.arxiv_id) if paper else (None, "")
        return mark_safe(mark(name, key, identifier))  # noqa: S308
    template_of = context.template.engine.get_template  # type: ignore[union-attr]
    with context.push(**({"paper": paper} if paper else {})):
        made: SafeString = template_of(f"personal/{name}.html").render(context)
    return mark_safe(made.rstrip("\n"))  # noqa: S308


@register.filter
def marked_code(text: str) -> SafeString:
    """A text in which what stands between backticks is code."""
    parts = enumerate(escape(part) for part in text.split("`"))
    marked = (f"<code>{part}</code>" if place % 2 else part for place, part in parts)
    return mark_safe("".join(marked))  # noqa: S308 - each part is escaped


@register.filter
def points(value: float) -> str:
    """Points of a score: 1.5, 2, 0.25; never 1.50."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


@register.filter
def signed(value: float) -> str:
    """Points with their sign: +1.5, −0.8, and ±0 if some cancel out."""
    sign = "−" if value < 0 else "+" if value else "±"
    return f"{sign}{points(abs(value))}"


@register.filter
def moment(value: datetime | None) -> SafeString | str:
    """An absolute time, since pages are cached; the script makes it relative."""
    if value is None:
        return gettext("never")
    value = value.astimezone(UTC)
    return format_html(
        '<time datetime="{}">{} UTC</time>',
        value.isoformat(timespec="seconds"),
        date_format(value, gettext("j M Y, H:i")),
    )


@register.filter
def listed(words: Sequence[str]) -> str:
    """English words from rows, translated and joined by commas."""
    return gettext(", ").join(map(gettext, words))


@register.filter
def total(counts: dict[str, int]) -> int:
    """The sum of some counts."""
    return sum(counts.values())


@register.filter
def at(counts: dict[str, int], name: str) -> int:
    """One count, 0 if nothing was counted."""
    return counts.get(name, 0)


@register.filter
def tex(text: str) -> SafeString:
    """Untrusted text with TeX as HTML, for text that is not stored rendered."""
    return mark_safe(_render(text))  # noqa: S308


@register.filter
def formula(source: str) -> SafeString:
    """TeX mathematics as a display formula; its source if it cannot be converted."""
    return sanitised(mathml(source, block=True) or f'<code class="tex">{escape(source)}</code>')


@register.filter
def licence(address: str) -> str:
    """The short name of a licence, given by its address: `CC BY 4.0`."""
    match = re.search(r"creativecommons\.org/(licenses|publicdomain)/([a-z-]+)/([\d.]+)", address)
    if match is None:
        return gettext("arXiv’s licence") if "arxiv.org/licenses" in address else address
    name = "CC0" if match[2] == "zero" else f"CC {match[2].upper()}"
    return f"{name} {match[3]}"
