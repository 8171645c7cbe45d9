from django.urls import URLPattern, path

from webapp.papers import converters, views  # noqa: F401 - `arxiv`

app_name = "papers"
urlpatterns: list[URLPattern] = [
    path("papers/<arxiv:arxiv_id>.bib", views.citation, {"suffix": "bib"}, name="bibtex"),
    path("papers/<arxiv:arxiv_id>.ris", views.citation, {"suffix": "ris"}, name="ris"),
]
