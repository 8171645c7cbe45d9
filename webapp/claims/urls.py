from django.urls import path

from webapp.claims import views
from webapp.papers import converters  # noqa: F401 - `arxiv`

app_name = "claims"
urlpatterns = [
    path("papers/<arxiv:arxiv_id>/corrections", views.correct, name="correct"),
    path("corrections/", views.queue, name="corrections"),
]
