from __future__ import annotations

from django.urls import URLPattern, path, register_converter

from webapp.papers import views
from webapp.papers.converters import ArxivIdConverter

register_converter(ArxivIdConverter, "arxiv")

app_name = "papers"
urlpatterns: list[URLPattern] = [
    path("papers/<arxiv:arxiv_id>/", views.paper, name="paper"),
    path("papers/<arxiv:arxiv_id>.bib", views.bibtex, name="bibtex"),
    path("papers/<arxiv:arxiv_id>.ris", views.ris, name="ris"),
    path("search", views.search, name="search"),
    path("intake/", views.intake, name="intake"),
]
