"""Headers of every response, and attributes of cookies."""

from __future__ import annotations

import os
import subprocess

import pytest
from django.test import Client

from tests import factories, forking
from tests.processes import ROOT
from tests.test_authorisation import READERS, address
from webapp.readers import links

pytestmark = pytest.mark.django_db
OPEN: tuple[str, ...] = (
    "/",
    "/search?q=x",
    "/methods/",
    "/runs/",
    "/feeds/",
    "/api/v1/papers/none",
    "/nowhere",
)
OPEN += ("/.rss", "/healthz", "/sign-in/", "/api/docs")


def test_every_answer_has_its_headers(client: Client) -> None:
    factories.make_profile("site", is_site=True)
    for path in OPEN:
        answer = client.get(path)
        kind = answer["Content-Type"]
        assert "charset=utf-8" in kind or "json" in kind, (path, kind)
        assert answer["X-Content-Type-Options"] == "nosniff", path
        assert answer["Referrer-Policy"] == "same-origin", path
        assert answer["X-Frame-Options"] == "DENY", path
        assert "default-src 'none'" in answer["Content-Security-Policy"], path
        assert "frame-ancestors 'none'" in answer["Content-Security-Policy"], path
        named = {name.lower() for name in answer.headers}
        assert not named & {"server", "x-powered-by", "access-control-allow-origin"}, path


def test_private_pages_are_kept_by_no_cache(client: Client) -> None:
    factories.make_paper(1)
    reader = factories.make_reader("owner")
    factories.make_profile("mine", owner=reader)
    client.force_login(reader)
    seen = 0
    for name in sorted(READERS):
        answer = client.get(address(name))
        if answer.status_code == 200:
            seen += 1
            assert "no-store" in answer.get("Cache-Control", ""), name
    assert seen > 8


def test_no_file_is_served_by_its_path(client: Client) -> None:
    for path in (
        "/.git/config",
        "/manage.py",
        "/static/",
        "/static/../manage.py",
        "/var/secret_key",
    ):
        assert client.get(path).status_code == 404, path


SIGN_IN = """
import django; django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from django.test import Client
from webapp.readers import links
client = Client(headers={"host": "localhost", "x-forwarded-proto": "https"})
page = "/sign-in/" + links.make_link(links.administrator()) + "/"
client.get(page, secure=True)
answer = client.post(page, secure=True)
print(answer.cookies.output())
print("HSTS", answer["Strict-Transport-Security"])
print("redirect", Client(headers={"host": "localhost"}).get("/sign-in/")["Location"])
"""


def test_cookies(client: Client, tmp_path: object) -> None:
    client.post(f"/sign-in/{links.make_link(links.administrator())}/")
    session = client.cookies["sessionid"]
    assert session["httponly"]
    assert (session["samesite"], session["path"]) == ("Lax", "/")
    behind_tls = {**os.environ, "ASSAY_HTTPS": "1", "ASSAY_DATA": str(tmp_path), "DATABASE_URL": ""}
    behind_tls["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
    done = subprocess.run(
        forking.program(SIGN_IN), cwd=ROOT, env=behind_tls, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if "sessionid" in line]
    assert line.startswith("Set-Cookie: __Host-sessionid=")
    for part in ("HttpOnly", "Secure", "SameSite=Lax", "Path=/"):
        assert part in line
    assert "HSTS max-age=31536000" in done.stdout
    assert "redirect https://localhost/sign-in/" in done.stdout
