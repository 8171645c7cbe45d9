from __future__ import annotations

from django.urls import URLPattern, path

from webapp.papers import (
    converters,  # noqa: F401 - `arxiv`
    views,
)

app_name = "papers"
urlpatterns: list[URLPattern] = [
    path("papers/<arxiv:arxiv_id>/", views.paper, name="paper"),
    path("papers/<arxiv:arxiv_id>.bib", views.bibtex, name="bibtex"),
    path("papers/<arxiv:arxiv_id>.ris", views.ris, name="ris"),
    path("search", views.search, name="search"),
    path("intake/", views.intake, name="intake"),
]
