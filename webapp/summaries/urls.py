from django.urls import path, register_converter

from webapp.summaries import views
from webapp.ui.converters import DateConverter

register_converter(DateConverter, "batch_date")

app_name = "summaries"
urlpatterns = [
    path("summaries/<batch_date:date>/", views.day, name="day"),
    path("summaries/<arxiv:arxiv_id>/", views.summary, name="summary"),
    path("summaries/<arxiv:arxiv_id>/ask", views.ask, name="ask"),
]
