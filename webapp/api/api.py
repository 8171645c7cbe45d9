"""The API: methods, and runs to queue, follow, cancel and read."""

from functools import cached_property
from typing import Annotated, Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI, Router, Status
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema
from ninja.params.functions import Header
from ninja.parser import Parser

from assay_common import __version__
from assay_common.text import clean_json
from methods import registry
from methods.spec import InputError, Method, ParameterError, UnknownNameError
from webapp.api import reading
from webapp.api.problems import MEDIA_TYPE, ProblemError, answer
from webapp.api.schemas import MethodSchema, Problem
from webapp.api.tokens import Bearer, token_reader, visitor_with
from webapp.core.limits import LimitReachedError, spend, visitor
from webapp.runs import submit
from webapp.runs.models import Run, State
from webapp.runs.queries import may_cancel, visible_runs
from webapp.runs.web.export import RunResults, RunStatus

LATEST = 100  # runs in a list
# The status of each refusal by the domain; all others are 422.
STATUS = {UnknownNameError: 404, submit.KeyReusedError: 409, submit.QuotaError: 403}


class CleanParser(Parser):
    """Cleans the texts in a body before anything else reads them."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the JSON of the body. Raises ProblemError."""
        try:
            return clean_json(super().parse_body(request))
        except RecursionError:
            raise ProblemError(400, "The body is nested too deeply.") from None
        except ValueError as error:
            raise ProblemError(400, f"The body is not JSON: {error}.") from None


class Api(NinjaAPI):
    """The API, whose OpenAPI document describes refusals as problems."""

    def get_openapi_schema(self, **_: Any) -> OpenAPISchema:
        """Return the OpenAPI document."""
        return self._document

    @cached_property
    def _document(self) -> OpenAPISchema:
        """Made for the first request: every process knows its operations from its start."""
        schema = super().get_openapi_schema()
        schema["info"]["version"] = __version__  # of the site; the API's stands in its addresses
        schema["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        refusal = {"description": "A refusal and its reason.", "content": content}
        for path in schema["paths"].values():
            for operation in path.values():
                operation["responses"]["default"] = refusal
        return schema


api = Api(
    parser=CleanParser(),
    title="Assay",
    version="1",
    description="Papers, digests, feeds, methods with their measurements, runs, and a reader's "
    "library. Public data needs no token; everything else needs one with the scope `runs` or "
    "`library`, sent as `Authorization: Bearer TOKEN`. Responses have an ETag.",
    docs_url=None,  # Ninja's page loads scripts from elsewhere; ours is webapp.api.views.docs
    openapi_url="/openapi.json",
)
runs = Router(tags=["runs"])


def _run(request: HttpRequest, pk: UUID, reader: User | AnonymousUser | None = None) -> Run:
    """A run that the caller may see: with a token the reader's, else a public one."""
    visitor = reader or visitor_with(request, "runs")
    runs_seen = visible_runs(visitor).select_related("worker", "environment")
    run = runs_seen.filter(pk=pk).first()
    if run is None:
        raise ProblemError(404, f"There is no run {pk}.")
    return run


@api.get("/methods", response=list[MethodSchema], tags=["methods"], summary="All methods")
def methods(request: HttpRequest) -> tuple[Method, ...]:
    """Every method with its benchmarks, their parameters, bounds and presets."""
    return registry.all_methods()


@runs.get("", response=list[RunStatus], summary="The latest runs")
def latest(
    request: HttpRequest, method: str = "", benchmark: str = "", state: State | None = None
) -> QuerySet[Run]:
    """At most a hundred, latest first, filtered by method, benchmark or state."""
    narrow = {"method": method, "benchmark": benchmark, "state": state}
    visible = visible_runs(visitor_with(request, "runs")).filter(
        **{k: v for k, v in narrow.items() if v}
    )
    return visible.select_related("worker")[:LATEST]


@runs.post("", auth=Bearer("runs"), response={202: RunStatus}, summary="Request a run")
def create(
    request: HttpRequest,
    response: HttpResponse,
    requested: submit.RunRequest,
    idempotency_key: Annotated[str, Header(max_length=64)] = "",
) -> Status[Run]:
    """Queue a run. With the header Idempotency-Key, repeated requests return the same run;
    409 for a key that was sent with another request."""
    spend("runs", visitor(request))
    run = submit.submit(token_reader(request), requested, idempotency_key)
    response["Location"] = f"{request.path.rstrip('/')}/{run.pk}"
    return Status(202, run)


@runs.get("/{uuid:pk}", response=RunStatus, summary="The state of a run")
def status(request: HttpRequest, pk: UUID) -> Run:
    """State, progress, and the reason if it failed."""
    return _run(request, pk)


@runs.get("/{uuid:pk}/results", response=RunResults, summary="The results of a run")
def results(request: HttpRequest, pk: UUID) -> Run:
    """Checks, series, environment and command; 409 while there are no results yet."""
    run = _run(request, pk)
    if not run.ended:
        raise ProblemError(409, f"The run is {run.get_state_display()}: it has no results yet.")
    return run


@runs.post(
    "/{uuid:pk}/cancel", auth=Bearer("runs"), response={202: RunStatus}, summary="Cancel a run"
)
def cancel(request: HttpRequest, pk: UUID) -> Status[Run]:
    """Cancel one of your runs; 409 if it has ended."""
    run = _run(request, pk, token_reader(request))
    if not may_cancel(token_reader(request), run):
        raise ProblemError(403, "Only its reader and staff may cancel a run.")
    if not submit.cancel(run):
        raise ProblemError(409, f"The run has ended: it is {run.get_state_display()}.")
    return Status(202, run)


api.add_router("/runs", runs)
api.add_router("/papers", reading.papers_router)
api.add_router("", reading.public_router)
api.add_router("/library", reading.library_router)


def _field(location: tuple[object, ...]) -> str:
    """Return the dotted path of an invalid field, or "body" for the whole body."""
    source, argument, *path = location
    return ".".join(map(str, path)) or str(source if source == "body" else argument)


def _refuse(_request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    """The response to a refused request."""
    match error:
        case ProblemError():
            problem = error
        case AuthenticationError():
            detail = "Send one of your tokens as Authorization: Bearer TOKEN; create one at "
            headers = {"WWW-Authenticate": "Bearer"}
            problem = ProblemError(401, f"{detail}/account/tokens/.", headers=headers)
        case ParameterError():
            errors = [vars(wrong) for wrong in error.problems]
            problem = ProblemError(422, str(error), errors=errors)
        case ValidationError():
            errors = [
                {"name": _field(wrong["loc"]), "reason": wrong["msg"]} for wrong in error.errors
            ]
            detail = "The request does not match its schema."
            problem = ProblemError(422, detail, errors=errors)
        case LimitReachedError():
            headers = {"Retry-After": str(error.seconds)}
            problem = ProblemError(429, str(error), headers=headers)
        case HttpError(__cause__=ProblemError() as cause):  # the parser's, in ninja's own
            problem = cause
        case HttpError():
            problem = ProblemError(error.status_code, str(error))
        case Http404():
            problem = ProblemError(404, str(error))
        case _:
            problem = ProblemError(STATUS.get(type(error), 422), str(error))
    return answer(problem)


KINDS = (ProblemError, AuthenticationError, ValidationError, LimitReachedError, HttpError, Http404)
for _kind in (*KINDS, InputError):
    api.add_exception_handler(_kind, _refuse)
