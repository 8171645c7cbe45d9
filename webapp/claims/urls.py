from django.urls import path

from webapp.claims import views
from webapp.ui import converters  # noqa: F401 - `suffix`

app_name = "claims"
urlpatterns = [
    path("quantities/", views.quantities, name="quantities"),
    path("quantities.csv", views.quantity_csv, name="quantity-csv"),
    path("quantities.<suffix:suffix>", views.quantity_feed, name="quantity-feed"),
]
