from django.urls import path

from webapp.pages import first_steps

app_name = "pages"
urlpatterns = [path("first-steps/", first_steps.first_steps, name="first-steps")]
