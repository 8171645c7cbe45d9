from django.urls import path

from webapp.catalog import feeds, views
from webapp.papers import converters  # noqa: F401 - `arxiv`
from webapp.ui import converters as _  # noqa: F401 - `method` and `suffix`

app_name = "catalog"
urlpatterns = [
    path("papers/<arxiv:arxiv_id>/methods/<method:method>/", views.correct, name="correct"),
    path("methods/<method:method>.<suffix:suffix>", feeds.papers, name="papers-feed"),
    # Readers of feeds still ask for this one of release 0.1.0.
    path(
        "methods/<method:method>/measurements.<suffix:suffix>",
        views.measurements,
        name="measurements",
    ),
    path("methods/<method:method>/code/", views.code, name="code"),
    path("methods/<method:method>/documents/", views.documents, name="documents"),
]
