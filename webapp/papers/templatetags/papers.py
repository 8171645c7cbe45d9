"""Template tags about papers and the intake, for templates of any app."""

from django import template

from webapp.papers.audit_messages import translate_reason

register = template.Library()
register.filter(translate_reason)
