from django.urls import URLPattern, path

from webapp.mail import views

app_name = "mail"
urlpatterns: list[URLPattern] = [
    path("account/mail/", views.account_mail, name="account"),
    path("account/mail/<int:pk>/", views.preview, name="preview"),
    path("account/mail/confirm/<str:token>/", views.confirm, name="confirm"),
    path("mail/end/<str:token>/", views.unsubscribe, name="unsubscribe"),
]
