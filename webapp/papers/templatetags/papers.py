"""Template tags about papers and the intake, for templates of any app."""

from django import template

from webapp.papers.audit_messages import translate_reason
from webapp.papers.proposal import in_two_lines

register = template.Library()
register.filter(translate_reason)
register.filter(in_two_lines)
