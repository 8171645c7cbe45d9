"""Template tags about papers and the intake, for templates of any app."""

from django import template

from webapp.papers.reasons import told

register = template.Library()
register.filter(told)
