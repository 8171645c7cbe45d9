from django.urls import URLPattern, path

from webapp.runs.web import views
from webapp.ui import converters  # noqa: F401 - `suffix`

app_name = "runs"
urlpatterns: list[URLPattern] = [
    path("runs.<suffix:suffix>", views.results, name="feed"),
    path("runs/<uuid:pk>/cancel", views.cancel, name="cancel"),
    path("runs/<uuid:pk>/results.json", views.as_json, name="json"),
    path("runs/<uuid:pk>/results.csv", views.as_csv, name="csv"),
    path("runs/<uuid:pk>/files/<str:name>", views.artefact, name="artefact"),
    path("workers/", views.workers, name="workers"),
    path("charts.css", views.chart_style, name="chart-style"),
]
