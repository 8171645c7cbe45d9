from django.urls import path, register_converter

from webapp.catalog import feeds, views
from webapp.ui.converters import MethodConverter, SuffixConverter

register_converter(MethodConverter, "method")
register_converter(SuffixConverter, "feed")

app_name = "catalog"
urlpatterns = [
    path("methods/", views.methods, name="methods"),
    path("methods/links/<int:pk>/", views.decide, name="decide"),
    path("verdicts.<feed:suffix>", feeds.verdicts, name="all-verdicts"),
    path("methods/<method:method>.<feed:suffix>", feeds.papers, name="papers-feed"),
    path(
        "methods/<method:method>/measurements.<feed:suffix>",
        feeds.measurements,
        name="measurements-feed",
    ),
    path("methods/<method:method>/verdicts.<feed:suffix>", feeds.verdicts, name="verdicts-feed"),
    path("methods/<method:method>/", views.method, name="method"),
    path("methods/<method:method>/code/", views.code, name="code"),
    path("methods/<method:method>/documents/", views.documents, name="documents"),
]
