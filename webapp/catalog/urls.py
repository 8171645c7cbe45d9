from django.urls import path

from webapp.catalog import feeds, views
from webapp.ui import converters  # noqa: F401 - `method` and `suffix`

app_name = "catalog"
urlpatterns = [
    path("methods/links/<int:pk>/", views.decide, name="decide"),
    path("verdicts.<suffix:suffix>", feeds.verdicts, name="all-verdicts"),
    path("methods/<method:method>.<suffix:suffix>", feeds.papers, name="papers-feed"),
    path(
        "methods/<method:method>/measurements.<suffix:suffix>",
        feeds.measurements,
        name="measurements-feed",
    ),
    path("methods/<method:method>/verdicts.<suffix:suffix>", feeds.verdicts, name="verdicts-feed"),
    path("methods/<method:method>/code/", views.code, name="code"),
    path("methods/<method:method>/documents/", views.documents, name="documents"),
]
