from django.urls import path

from webapp.papers import converters  # noqa: F401 - `arxiv`
from webapp.summaries import views

app_name = "summaries"
urlpatterns = [
    path("summaries/<arxiv:arxiv_id>/", views.summary, name="summary"),
    path("summaries/<arxiv:arxiv_id>/tables", views.ask_for_tables, name="tables"),
    path("summaries/<arxiv:arxiv_id>/cancel", views.cancel, name="cancel"),
    path("summaries/<arxiv:arxiv_id>/ask", views.ask, name="ask"),
]
