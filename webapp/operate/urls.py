from django.urls import path

from webapp.operate import connecting, views

app_name = "operate"
urlpatterns = [
    path("connections/", connecting.connect, name="connections"),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics, name="metrics"),
]
