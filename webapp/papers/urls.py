from django.urls import URLPattern, path

from webapp.papers import citations, converters  # noqa: F401 - `arxiv`

app_name = "papers"
urlpatterns: list[URLPattern] = [
    path("papers/<arxiv:arxiv_id>.bib", citations.citation, {"suffix": "bib"}, name="bibtex"),
    path("papers/<arxiv:arxiv_id>.ris", citations.citation, {"suffix": "ris"}, name="ris"),
]
