"""Servers of models on this machine, looked for when an administrator asks."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from assay_common.text import clean

# Where servers listen if nobody says otherwise (their documentation). 8000 may be Assay's own port:
# that answers no list of models, and so is none.
PORTS = {"Ollama": 11434, "LM Studio": 1234, "llama.cpp": 8080, "vLLM": 8000}
SECONDS = 1.0  # for each to answer
MAX_MODELS = 20  # of one server that are shown


@dataclass(frozen=True)
class Nearby:
    """A server that answered, and the models that it has."""

    name: str
    base_url: str
    models: tuple[str, ...]


def look() -> list[Nearby]:
    """The servers that answer at their usual ports, all asked at once."""
    with ThreadPoolExecutor(len(PORTS)) as pool:
        found = pool.map(_ask, PORTS, PORTS.values())
    return [server for server in found if server is not None]


def _ask(name: str, port: int) -> Nearby | None:
    import httpx2  # noqa: PLC0415 - openai's own HTTP client, slow to import

    address = f"http://127.0.0.1:{port}/v1"
    try:
        answer = httpx2.get(f"{address}/models", timeout=SECONDS, follow_redirects=False)
        listed = answer.json()["data"]
        models = tuple(clean(str(model["id"]))[:128] for model in listed[:MAX_MODELS])
    except (httpx2.HTTPError, ValueError, LookupError, TypeError):
        return None
    return Nearby(name, address, models)
