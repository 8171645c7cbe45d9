from django.urls import URLPattern, path, re_path
from django.views.generic import RedirectView

from webapp.library import bulk, sharing, views
from webapp.papers import converters  # noqa: F401 - `arxiv`

app_name = "library"
urlpatterns: list[URLPattern] = [
    path("starred/", RedirectView.as_view(pattern_name="library:library"), name="starred"),
    re_path(r"^library\.(?P<suffix>bib|ris|csl\.json)$", views.export, name="export"),
    path("star/", views.star, name="star"),
    path("save/<str:token>/", views.save, name="save"),
    path("library/leave/", views.leave, name="leave"),
    path("library/forget/", views.forget, name="forget"),
    path("library/import/", views.import_, name="import"),
    path("library/zotero/", views.zotero_, name="zotero"),
    path("library/chosen/", bulk.bulk, name="bulk"),
    path("library/lists/<int:pk>/", sharing.change, name="list"),
    path("lists/<str:key>.<suffix:suffix>", sharing.feed, name="shared-feed"),
    path("library/papers/<arxiv:arxiv_id>/", views.entry, name="entry"),
]
