from django.urls import path

from webapp.summaries import views

app_name = "summaries"
urlpatterns = [
    path("summaries/<date:date>/", views.day, name="day"),
    path("summaries/<arxiv:arxiv_id>/", views.summary, name="summary"),
    path("summaries/<arxiv:arxiv_id>/ask", views.ask, name="ask"),
]
