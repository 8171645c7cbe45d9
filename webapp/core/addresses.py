"""Codes and addresses that are copied from elsewhere, as they were meant."""

import re
import unicodedata
from urllib.parse import parse_qs, urlsplit

from assay_common.env import split_address
from assay_common.text import one_line

_QUOTES = "\"'`“”‘’«»<> "
# Paths of one request, which people copy with the address of its server.
_REQUESTS = re.compile(
    r"/(?:chat/completions|completions|responses|embeddings|models(?:/.*)?|messages)/?$", re.I
)
_OLLAMA = re.compile(r"/api(?:/(?:chat|generate|tags|show|pull|embed|embeddings))?$")
_AZURE = re.compile(r"(?:/openai(?:/deployments/[^/]+|/v1)?|/models)?$", re.I)
_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_SCHEME = re.compile(r"^(https?):?/+", re.I)  # however many signs of it were copied
# In a command or a setting, as servers' documentation has it.
_WITHIN = re.compile(r"""https?://[^\s"'`<>]+""", re.I)
# Paths of servers' OpenAI-compatible APIs, if only their name was copied.
_BASES = {
    "openrouter.ai": "/api/v1",
    "api.groq.com": "/openai/v1",
    "generativelanguage.googleapis.com": "/v1beta/openai",
}
WITHOUT_KEY = "write the address without a key, which has a setting of its own"
_LIBRARY = re.compile(r"(?:^|/)(users|groups)/([0-9]{1,12})(?:[/?#].*)?", re.I)


def plain_code(text: str) -> str:
    """Return a code without quotes and blanks around it, and full-width signs as plain ones."""
    return one_line(unicodedata.normalize("NFKC", text)).strip(_QUOTES)


def server_address(text: str) -> str:
    """Return the base address of an OpenAI-compatible server, whatever was copied of it.

    The path of a request and the query go, and `/v1` or its like is added. Raises ValueError, with
    a right address in its message.
    """
    given = plain_code(text)
    if len(within := set(_WITHIN.findall(given))) == 1:
        given = within.pop()
    given = _SCHEME.sub(r"\1://", given.rstrip(".,;。、"))
    if re.fullmatch(r"sk-[\w-]{16,}", given):
        raise ValueError(WITHOUT_KEY)
    if given and "://" not in given:
        is_local = re.match(r"(?:localhost|[\d.]+|\[[\da-f:]+\]|[\w-]+)(?::\d+)?(?:/|$)", given)
        given = f"{'http' if is_local else 'https'}://{given}"
    try:
        parts = split_address(given)
    except ValueError:
        if "@" in given:  # there is a password, and the message says how to write it
            raise
        parts = urlsplit("")
    is_address = parts.scheme.lower() in {"http", "https"} and parts.hostname
    if not is_address or re.search(r"\s", given):
        raise ValueError("write an address such as http://localhost:11434/v1")
    if parse_qs(parts.query).keys() - {"api-version"}:
        raise ValueError(WITHOUT_KEY)
    login, separator, _ = parts.netloc.rpartition("@")
    host = str(parts.hostname)
    name = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    path = _REQUESTS.sub("", re.sub("/{2,}", "/", parts.path).rstrip("/")).rstrip("/")
    if host.endswith(_AZURE_HOSTS):
        path = _AZURE.sub("/openai/v1", path, count=1)
    elif host in _BASES and not path.startswith(_BASES[host]):
        path = _BASES[host]
    elif not path or _OLLAMA.fullmatch(path):
        path = "/v1"
    return f"{parts.scheme.lower()}://{login}{separator}{name}{port}{path}"


def zotero_library(text: str) -> str:
    """Return `users/123` or `groups/123` from a library's address, or from a user's number.

    Raises ValueError.
    """
    code = plain_code(text)
    if re.fullmatch(r"[0-9]{1,12}", code):
        return f"users/{code}"
    match = _LIBRARY.search(code)
    if match is None:
        raise ValueError("write users/123456 or groups/123456")
    return f"{match[1].lower()}/{match[2]}"


def zotero_key(text: str) -> str:
    """Return a key, which may have been copied with the address it stands in."""
    code = plain_code(text)
    return parse_qs(urlsplit(code).query).get("key", [code])[0]
