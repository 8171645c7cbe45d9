"""How far a server holds its model to a structure: probed once, and remembered.

A server may enforce a JSON schema, accept it and ignore it, refuse the field, or know nothing of
it. So the probe asks for prose under a schema: only a server that enforces the schema answers
with JSON of that form.
"""

import json
from typing import Any

from .client import RefusedError, Server
from .models import ServerCapability

Mode = ServerCapability.Mode

_PROBE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"assay_probe": {"type": "string", "enum": ["granted"]}},
    "required": ["assay_probe"],
    "additionalProperties": False,
}


def response_format(mode: str, schema: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The `response_format` that holds an answer to `schema` as far as `mode` allows."""
    if mode == Mode.SCHEMA:
        return {
            "type": "json_schema",
            "json_schema": {"name": name, "strict": True, "schema": schema},
        }
    return {"type": "json_object"} if mode == Mode.OBJECT else None


def mode_of(server: Server) -> str:
    """The strictest mode the server was seen to honour; raises ModelError if it cannot be asked."""
    known = ServerCapability.objects.filter(base_url=server.base_url, model=server.model).first()
    if known:
        return known.mode
    mode = _probe(server)
    ServerCapability.objects.update_or_create(
        base_url=server.base_url, model=server.model, defaults={"mode": mode}
    )
    return mode


def forget(server: Server) -> None:
    """Probe again next time: the server no longer takes what it took."""
    ServerCapability.objects.filter(base_url=server.base_url, model=server.model).delete()


def _probe(server: Server) -> str:
    prose = "In one short sentence: what is a pruner?"
    wants_json = 'Answer with the json object {"pruner": "one short sentence"}.'
    if _as_object(server, prose, response_format(Mode.SCHEMA, _PROBE_SCHEMA, "probe")) == {
        "assay_probe": "granted"
    }:
        return Mode.SCHEMA
    if _as_object(server, wants_json, response_format(Mode.OBJECT, {}, "probe")) is not None:
        return Mode.OBJECT
    return Mode.PROMPT


def _as_object(
    server: Server, question: str, wanted: dict[str, Any] | None
) -> dict[str, Any] | None:
    """The answer as a JSON object; None where the field is refused or the answer is none."""
    try:
        answer = json.loads(server.ask([{"role": "user", "content": question}], wanted).text)
    except RefusedError as error:
        if error.status in {401, 403, 404}:
            raise
        return None
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None
