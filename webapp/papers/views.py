"""A paper's citation as a file."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from webapp.papers import citations
from webapp.papers.identifiers import parse_identifier
from webapp.papers.models import Paper


@require_safe
def citation(request: HttpRequest, arxiv_id: str, suffix: str) -> HttpResponse:
    """The paper as a BibTeX or RIS file."""
    paper = get_object_or_404(Paper, arxiv_id=parse_identifier(arxiv_id)[0])
    return citations.download([paper], paper.arxiv_id.replace("/", "-"), suffix)
