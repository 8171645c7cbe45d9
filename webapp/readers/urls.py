from django.contrib.auth.views import LogoutView
from django.urls import path

from webapp.readers import account, views

app_name = "readers"
urlpatterns = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-in/<str:token>/", views.use_link, name="use-link"),
    path("sign-out/", LogoutView.as_view(), name="sign-out"),
    path("language/", views.language, name="language"),
    path("account/data.json", account.export, name="export"),
    path("account/sign-out/", account.sign_out_elsewhere, name="sign-out-elsewhere"),
    path("account/readers/", account.readers, name="readers"),
]
