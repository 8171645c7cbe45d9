"""The site behind nginx, whose port is not 443: forms, links, redirects and cookies."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator

import httpx2
import pytest

from tests import machine
from tests.processes import PATIENCE, free_port, wait_for
from tests.servers.site import serving

CONFIGURATION = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/cert.pem;
    ssl_certificate_key {folder}/key.pem;
    location / {{
      proxy_pass {site};
      proxy_read_timeout 600;
      proxy_set_header Host {host};
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-For $remote_addr;
    }}
  }}
}}
"""
NAME = "digest.example"


@pytest.fixture(scope="module", params=["$host", "$http_host"])
def proxied(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[httpx2.Client, str, str]]:
    """A client of nginx, the public address, and the address behind it.

    `$host` lacks the port, as docs/operate.md had it for long.
    """
    nginx = machine.NGINX.find() or pytest.skip(machine.NGINX.why_not)
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    subprocess.run(
        [shutil.which("openssl") or "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", f"/CN={NAME}",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    address = f"https://{NAME}:{port}"
    # The configured address alone: no ASSAY_HOSTS, no ASSAY_HTTPS.
    variables = {"ASSAY_BASE_URL": address, "ASSAY_SMTP_URL": "smtp://127.0.0.1:9"}
    with serving(folder / "data", "empty", variables=variables) as site:
        settings = {"folder": folder, "port": port, "site": site.address, "host": request.param}
        (folder / "nginx.conf").write_text(CONFIGURATION.format(**settings))
        server = subprocess.Popen([nginx, "-c", folder / "nginx.conf", "-p", folder])
        try:
            wait_for(lambda: _listens(port), "nginx")
            yield _client(port), address, site.address
        finally:
            server.terminate()
            server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def _client(port: int) -> httpx2.Client:
    """A client that looks up every name as this machine, and takes any certificate."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    class Here(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            here = request.url.copy_with(host="127.0.0.1")
            return super().handle_request(
                httpx2.Request(request.method, here, headers=request.headers, stream=request.stream)
            )

    base = f"https://{NAME}:{port}"
    return httpx2.Client(transport=Here(verify=context), base_url=base, timeout=PATIENCE)


def posted(client: httpx2.Client, **headers: str) -> httpx2.Response:
    """The answer to the sign-in form with these headers."""
    page = client.get("/sign-in/")
    (token, *_) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
    data = {"csrfmiddlewaretoken": token, "address": "ada@site.example"}
    return client.post("/sign-in/", data=data, headers=headers)


def test_a_form_is_accepted_from_the_configured_address(
    proxied: tuple[httpx2.Client, str, str],
) -> None:
    client, address, _ = proxied
    assert posted(client, Origin=address).status_code in {200, 302}
    assert posted(client, Referer=f"{address}/sign-in/").status_code in {200, 302}


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"Origin": "null"}, "Referrer-Policy: no-referrer"),
        ({"Origin": "https://digest.example:1"}, "set ASSAY_BASE_URL"),
        ({"Origin": "https://evil.example"}, "The form came from https://evil.example"),
        ({}, "Referrer-Policy: no-referrer"),
    ],
)
def test_a_refused_form_says_what_to_do(
    proxied: tuple[httpx2.Client, str, str], headers: dict[str, str], told: str
) -> None:
    client, *_ = proxied
    answer = posted(client, **headers)
    assert answer.status_code == 403
    assert told in " ".join(answer.text.split())
    assert "CSRF" not in answer.text
    assert "DEBUG" not in answer.text


def test_a_browser_without_cookies_is_told(proxied: tuple[httpx2.Client, str, str]) -> None:
    client, address, _ = proxied
    client.cookies.clear()
    answer = client.post("/sign-in/", data={"address": "x"}, headers={"Origin": address})
    assert answer.status_code == 403
    assert "Allow cookies for this site" in " ".join(answer.text.split())


def test_cookies_links_and_redirects_have_the_configured_address(
    proxied: tuple[httpx2.Client, str, str],
) -> None:
    client, address, site = proxied
    cookies = client.get("/sign-in/").headers.get_list("set-cookie")
    assert any(cookie.startswith("__Host-csrftoken=") and "Secure" in cookie for cookie in cookies)
    assert f"{address}/" in client.get("/digest.atom").text
    assert (
        httpx2.get(f"{site}/sign-in/", timeout=PATIENCE).headers["location"]
        == f"{address}/sign-in/"
    )
