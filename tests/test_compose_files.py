"""docker-compose.yml and docker/: valid, hardened, complete, and what the documents say of them."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.utils import canonicalize_name

import bootstrap
from tests.processes import ROOT
from webapp.env import VARIABLES
from webapp.settings import QUEUES

FILE = ROOT / "docker-compose.yml"
DOCKER = ROOT / "docker"
OPERATE = (ROOT / "docs" / "operate.md").read_text()
SECRETS = ("ASSAY_SECRET_KEY", "ASSAY_DB_PASSWORD", "ASSAY_REDIS_PASSWORD")
DOCUMENT = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, Any] = DOCUMENT["services"]
ONCE = {"migrate", "results", "key-cpu", "key-gpu"}
BENCH = {"bench-cpu", "bench-gpu"}


def stages() -> dict[str, list[tuple[str, str]]]:
    """The stages of the Dockerfile: their instructions, the lines of a RUN joined."""
    text = re.sub(r"^#.*\n", "", (DOCKER / "Dockerfile").read_text(), flags=re.MULTILINE)
    found: dict[str, list[tuple[str, str]]] = {}
    before, text = text.split("FROM ", 1)
    assert all(line.startswith("ARG ") for line in before.split("\n") if line)
    for line in re.sub(r"\\\n\s*", " ", f"FROM {text}").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = [*found.get(base, [])]
        elif word:
            found[name].append((word, rest))
    return found


STAGES = stages()
# The rules of the .dockerignore, in order: everything is out, some of it in again.
RULES = [
    line
    for line in (ROOT / ".dockerignore").read_text().splitlines()
    if line and not line.startswith("#")
]


def instructions(stage: str, word: str) -> list[str]:
    return [rest for name, rest in STAGES[stage] if name == word]


def copies(stage: str) -> list[tuple[list[str], str]]:
    """Each COPY: its sources and its target."""
    return [(words[:-1], words[-1]) for words in map(shlex.split, instructions(stage, "COPY"))]


def let_in(path: str) -> bool:
    """Return whether the last rule that matches `path`, or a folder of it, includes it."""
    parts = path.split("/")
    inside = True
    for rule in RULES:
        pattern = rule.removeprefix("!")
        anywhere = pattern.removeprefix("**/")
        names = (
            parts
            if anywhere != pattern
            else ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
        )
        if any(fnmatch.fnmatch(name, anywhere) for name in names):
            inside = rule.startswith("!")
    return inside


def test_the_file_is_valid() -> None:
    program = Path(sys.executable).parent / "check-jsonschema"
    command = [program, "--builtin-schema", "vendor.compose-spec", FILE]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_compose_can_read_it() -> None:
    """Compose 1.29 knows no top-level name, and no variable inside another's default."""
    own = {key for key in DOCUMENT if not key.startswith("x-")}
    assert own == {"services", "networks", "volumes"}
    for inside in re.findall(r"\$\{([^}]*)\}", FILE.read_text()):
        assert re.fullmatch(r"\w+(:[-?][^$]*)?", inside), inside


@pytest.mark.parametrize("name", SECRETS)
def test_a_missing_secret_stops_the_start_in_words(name: str) -> None:
    uses = re.findall(rf"\$\{{{name}([^}}]*)\}}", FILE.read_text())
    assert uses
    assert all(re.fullmatch(r":\?the .*; see docs/operate.md", use) for use in uses)


def test_the_file_itself_holds_no_secret() -> None:
    for service in SERVICES.values():
        for variable, value in (service.get("environment") or {}).items():
            if re.search("PASSWORD|SECRET|AUTH|API_KEY$", variable):
                assert value is None or re.fullmatch(r"\$\{\w+:\?[^}]*\}", value), variable
    assert not re.search("SECRET|PASSWORD|KEY", (DOCKER / "Dockerfile").read_text())


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}
    assert "privileged" not in service
    assert re.fullmatch(r"\d+g|\$\{\w+:-\d+g\}", service["mem_limit"])
    assert service["restart"] == ("no" if name in ONCE else "unless-stopped")
    assert ("healthcheck" in service) == (name not in ONCE)
    # Those of others may be pinned by a digest in the place of a tag (docs/operate.md).
    others = r"\$\{ASSAY_[A-Z]+_IMAGE:-[a-z]+:[a-z0-9.-]+\}"
    assert re.fullmatch(r"assay-[a-z]+:[a-z]+" if "build" in service else others, service["image"])
    assert ":latest" not in service["image"]
    assert service.get("user", "") in {"postgres", "redis"} if "build" not in service else True
    for port in service.get("ports", []):
        assert re.match(r"\$\{\w+:-127\.0\.0\.1\}:", port)
    # A tmpfs is root's unless it is told otherwise: /data is the user's, and nobody else's.
    for place in service.get("tmpfs", []):
        assert place in {"/tmp", "/run/postgresql"} or place == (
            "/data:uid=10001,gid=10001,mode=0700"
        )
    for volume in service.get("volumes", []):
        assert not volume.startswith(("/", "."))  # named: no path of the host


def test_the_archive_before_an_upgrade_outlasts_its_container() -> None:
    service = SERVICES["migrate"]
    assert service["command"][-2:] == ["--data", "/kept"]
    assert "kept:/kept" in service["volumes"]
    assert not [place for place in service["tmpfs"] if place.startswith("/kept")]


@pytest.mark.parametrize("name", sorted(BENCH))
def test_a_bench_worker_reaches_redis_alone(name: str) -> None:
    service = SERVICES[name]
    assert service["networks"] == ["broker"]
    assert DOCUMENT["networks"]["broker"] == {"internal": True}
    assert "broker" not in SERVICES["postgres"]["networks"]
    assert not {"DATABASE_URL", "ASSAY_SECRET_KEY"} & set(service["environment"])
    assert service["build"]["target"] == "bench"
    assert f"key-{name[6:]}:/keys:ro" in service["volumes"]


def test_conditions_name_services_that_can_meet_them() -> None:
    for service in SERVICES.values():
        for other, needs in service.get("depends_on", {}).items():
            ended = needs["condition"] == "service_completed_successfully"
            assert ended == (other in ONCE)
            assert set(SERVICES[other].get("profiles", [])) <= set(service.get("profiles", []))


def test_every_queue_is_served() -> None:
    served = [
        service["command"][service["command"].index("--queues") + 1]
        for service in SERVICES.values()
        if "--queues" in service.get("command", [])
    ]
    assert sorted(served) == sorted(["bench-cpu", "bench-gpu", *QUEUES])


def test_every_setting_reaches_the_site() -> None:
    names = set(VARIABLES)
    apart = {"ASSAY_DATA", "ASSAY_STATIC", "ASSAY_CONNECTIONS"}  # the image's
    apart |= {"ASSAY_DEBUG", "ASSAY_WORKER_KEY"}  # never here
    apart |= {"ASSAY_VENV", "ASSAY_METHODS_PATH"}  # a developer's
    apart |= {"ASSAY_TOKEN"}  # an assistant's on stdio, which is no service
    apart |= {"ASSAY_BENCH_USER"}  # for a worker that is root: the image's is not
    passed = {name for s in SERVICES.values() if "build" in s for name in s["environment"]}
    assert names - apart == passed - {"NVIDIA_DRIVER_CAPABILITIES"}
    assert {"ASSAY_DATA", "ASSAY_STATIC", "ASSAY_CONNECTIONS"} <= {
        word.partition("=")[0] for line in instructions("web", "ENV") for word in line.split()
    }


def test_every_variable_of_the_file_is_documented() -> None:
    settings = (ROOT / "docs" / "settings.md").read_text()
    for name in set(re.findall(r"\$\{(\w+)", FILE.read_text())):
        assert f"`{name}`" in OPERATE + settings, name


def test_the_gpu_is_reserved() -> None:
    service = SERVICES["bench-gpu"]
    assert service["profiles"] == SERVICES["key-gpu"]["profiles"] == ["gpu"]
    devices = service["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]


def test_a_machine_elsewhere_runs_what_the_profile_runs() -> None:
    assert json.loads(instructions("bench", "CMD")[-1]) == [
        word.replace("${ASSAY_LOG_LEVEL:-INFO}", "INFO")
        for word in SERVICES["bench-gpu"]["command"]
    ]
    kind, check = SERVICES["bench-gpu"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    assert instructions("bench", "HEALTHCHECK")[-1].endswith(f"CMD {check.replace('$$', '$')}")
    build, run = (
        shlex.split(line.strip())
        for line in re.findall(r"^    docker (?:build|run).*", OPERATE, re.M)
    )
    assert build[build.index("--target") + 1] == "bench"
    assert run[-1] == build[build.index("--tag") + 1]
    given = {word.partition("=")[0] for flag, word in pairwise(run) if flag == "--env"}
    assert given == {"ASSAY_WORKER_NAME", "ASSAY_WORKER_KEY", "CELERY_BROKER_URL"}
    assert given <= set(VARIABLES)
    for word in ("--read-only", "--init", "no-new-privileges", "ALL", "/tmp", "assay-bench:/data"):
        assert word in run


@pytest.mark.parametrize("name", ["web", "bench"])
def test_an_image_is_sound(name: str) -> None:
    text = (DOCKER / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+) AS (\w+)$", text, re.M)
    assert bases == [("${PYTHON_IMAGE}", "base"), ("base", "web"), ("base", "bench")]
    (python,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)$", text, re.M)
    for service in SERVICES.values():
        if "build" in service:
            assert service["build"]["args"]["PYTHON_IMAGE"] == f"${{ASSAY_PYTHON_IMAGE:-{python}}}"
    assert instructions(name, "USER")[-1] == "10001:10001"
    words = [word for word, _ in STAGES[name]]
    assert "ADD" not in words
    # As root to the last thing that is written, so that the user can change none of it.
    assert max(n for n, word in enumerate(words) if word in {"RUN", "COPY"}) < words.index("USER")
    for sources, _ in copies(name):
        for source in sources:
            assert (ROOT / source).exists(), source
            assert let_in(source), source
    for run in instructions(name, "RUN"):
        if "apt-get install" in run:
            assert "--no-install-recommends" in run
            assert "rm -rf /var/lib/apt/lists" in run
        if "pip install" in run:
            assert re.search(r"--requirement requirements/\w+\.txt", run)
            for line in re.findall(r"pip install [^&]*", run):
                assert "--require-hashes" in line or "requirements/torch.txt" in line
            assert "sudo" not in run


def test_no_registry_of_packages_is_named() -> None:
    """Packages come from pip's default index unless a build argument names another."""
    assert "TORCH_INDEX=" in instructions("bench", "ARG")
    assert SERVICES["bench-cpu"]["build"]["args"]["TORCH_INDEX"] == "${ASSAY_TORCH_INDEX:-}"
    assert not [rest for stage in STAGES.values() for _, rest in stage if "://" in rest]


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        "webapp/.env",
        ".git/config",
        "var/secret_key",
        ".venv/bin/python",
        "tests/run.py",
        "webapp/__pycache__/env.pyc",
    ],
)
def test_what_is_not_named_stays_out(path: str) -> None:
    assert RULES[0] == "*"
    assert not let_in(path)


def test_the_web_image_has_no_torch() -> None:
    assert [run for run in instructions("web", "RUN") if "ml.txt" in run] == []
    assert not {"torch", "transformers"} & set(bootstrap.pins("web"))


REFUSE = """
import json, sys
refused = set(json.loads(sys.argv[1]))
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
sys.meta_path.insert(0, Refuse())
import methods.worker.app, kombu.transport.redis
"""


def test_a_bench_worker_needs_only_what_its_image_installs(tmp_path: Path) -> None:
    image = {"torch"}.union(bootstrap.pins("ml"), bootstrap.pins("worker"))
    owners = packages_distributions()
    absent = [top for top, names in owners.items() if not image & {*map(canonicalize_name, names)}]
    assert {"django", "psycopg", "openai", "pytest"} <= set(absent)
    for sources, place in copies("bench"):
        for source in sources:
            target = tmp_path / place / Path(source).name
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, tmp_path / place)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / source, target)
    environment = {"PATH": os.environ["PATH"], "ASSAY_DATA": str(tmp_path / "data")}
    environment["CELERY_BROKER_URL"] = "redis://127.0.0.1:9/0"
    command = [sys.executable, "-c", REFUSE, json.dumps(absent)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
