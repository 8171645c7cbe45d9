"""Template tags about papers and the intake, for templates of any app."""

from django import template

from webapp.papers.reasons import translated_reason

register = template.Library()
register.filter(translated_reason)
