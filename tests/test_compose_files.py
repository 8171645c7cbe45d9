"""docker-compose.yml and docker/: valid, hardened, complete, and what the documents say of them."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import bootstrap
from tests.processes import ROOT
from tests.servers import dockerfile
from tests.servers.compose import MissingError, interpolate, load
from webapp.env import VARIABLES

FILE = ROOT / "docker-compose.yml"
OPERATE = (ROOT / "docs" / "operate.md").read_text()
SECRETS = ("ASSAY_SECRET_KEY", "ASSAY_DB_PASSWORD", "ASSAY_REDIS_PASSWORD")
GIVEN = dict.fromkeys(SECRETS, "f" * 64)
SERVICES: dict[str, Any] = load(FILE, GIVEN)["services"]
STAGES = dockerfile.read(ROOT / "docker" / "Dockerfile")
ONCE = {"migrate", "first-day", "key-cpu", "key-gpu"}
BENCH = {"bench-cpu", "bench-gpu"}


def test_the_file_is_valid() -> None:
    program = Path(sys.executable).parent / "check-jsonschema"
    command = [program, "--builtin-schema", "vendor.compose-spec", FILE]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a $$b", "a $b"),
        ("${A}-${B:-none}", "one-none"),
        ("${B:-${A:?why}/${C:-x}}", "one/x"),
        ("${A:-${C:?why}}", "one"),
        ("${B}", ""),
    ],
)
def test_variables_are_filled_in_as_compose_does(text: str, result: str) -> None:
    assert interpolate(text, {"A": "one"}) == result


@pytest.mark.parametrize("name", SECRETS)
def test_a_missing_secret_stops_the_start_in_words(name: str) -> None:
    rest = {other: value for other, value in GIVEN.items() if other != name}
    with pytest.raises(MissingError, match=f"{name}: the .*; see docs/operate.md"):
        load(FILE, rest)


def test_the_file_itself_holds_no_secret() -> None:
    for service in load(FILE, dict.fromkeys(SECRETS, "SECRET"))["services"].values():
        for variable, value in (service.get("environment") or {}).items():
            if re.search("PASSWORD|SECRET|AUTH|API_KEY$", variable):
                assert value in {"SECRET", None}, variable
    assert not re.search("SECRET|PASSWORD|KEY", (ROOT / "docker" / "Dockerfile").read_text())


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}
    assert "privileged" not in service
    assert service["restart"] == ("no" if name in ONCE else "unless-stopped")
    assert ("healthcheck" in service) == (name not in ONCE)
    assert re.fullmatch(r"[a-z-]+:[a-z0-9.-]+", service["image"])
    assert not service["image"].endswith(":latest")
    assert service.get("user", "") in {"postgres", "redis"} if "build" not in service else True
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")
    for volume in service.get("volumes", []):
        assert not volume.startswith(("/", "."))  # named: no path of the host


@pytest.mark.parametrize("name", sorted(BENCH))
def test_a_bench_worker_reaches_redis_alone(name: str) -> None:
    document, service = load(FILE, GIVEN), SERVICES[name]
    assert service["networks"] == ["broker"]
    assert document["networks"]["broker"] == {"internal": True}
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
    assert sorted(served) == ["bench-cpu", "bench-gpu", "events", "site", "summaries"]


def test_every_setting_reaches_the_site() -> None:
    names = {variable.name for variable in VARIABLES}
    apart = {"ASSAY_DATA", "ASSAY_STATIC"}  # the image's
    apart |= {"ASSAY_DEBUG", "ASSAY_WORKER_KEY"}  # never here
    passed = {name for s in SERVICES.values() if "build" in s for name in s["environment"]}
    assert names - apart == passed - {"WEB_CONCURRENCY", "NVIDIA_DRIVER_CAPABILITIES"}
    assert {"ASSAY_DATA", "ASSAY_STATIC"} <= set(STAGES["web"].environment())


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
    bench = STAGES["bench"]
    assert bench.command() == SERVICES["bench-gpu"]["command"]
    kind, check = SERVICES["bench-gpu"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    assert bench.all("HEALTHCHECK")[-1].endswith(f"CMD {check}")
    build, run = (
        shlex.split(line.strip())
        for line in re.findall(r"^    docker (?:build|run).*", OPERATE, re.M)
    )
    assert build[build.index("--target") + 1] == "bench"
    assert run[-1] == build[build.index("--tag") + 1]
    given = {word.partition("=")[0] for flag, word in pairwise(run) if flag == "--env"}
    assert given == {"ASSAY_WORKER_NAME", "ASSAY_WORKER_KEY", "CELERY_BROKER_URL"}
    assert given <= {variable.name for variable in VARIABLES}
    for word in ("--read-only", "--init", "no-new-privileges", "ALL", "/tmp", "assay-bench:/data"):
        assert word in run


@pytest.mark.parametrize("name", ["web", "bench"])
def test_an_image_is_sound(name: str) -> None:
    stage = STAGES[name]
    assert STAGES["base"].base == "python:3.11-slim-bookworm"
    assert stage.base == "base"
    assert stage.all("USER")[-1] == "10001:10001"
    words = [word for word, _ in stage.instructions]
    assert "ADD" not in words
    # As root to the last thing that is written, so that the user can change none of it.
    assert max(n for n, word in enumerate(words) if word in {"RUN", "COPY"}) < words.index("USER")
    rules = dockerfile.ignored(ROOT / "docker" / "Dockerfile.dockerignore")
    for sources, _ in stage.copies():
        for source in sources:
            assert (ROOT / source).exists(), source
            assert dockerfile.let_in(source, rules), source
    for run in stage.all("RUN"):
        if "apt-get install" in run:
            assert "--no-install-recommends" in run
            assert "rm -rf /var/lib/apt/lists" in run
        if "pip install" in run:
            assert re.search(r"--requirement requirements/\w+\.txt", run)
            assert "sudo" not in run


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
    rules = dockerfile.ignored(ROOT / "docker" / "Dockerfile.dockerignore")
    assert rules[0] == "*"
    assert not dockerfile.let_in(path, rules)


def test_the_web_image_has_no_torch() -> None:
    assert [run for run in STAGES["web"].all("RUN") if "ml.txt" in run] == []
    assert not {"torch", "transformers"} & set(bootstrap.pins("web"))


REFUSE = """
import json, sys
refused = set(json.loads(sys.argv[1]))
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
sys.meta_path.insert(0, Refuse())
import workers.bench, kombu.transport.redis
"""


def test_a_bench_worker_needs_only_what_its_image_installs(tmp_path: Path) -> None:
    image = set(bootstrap.pins("ml")) | _with_needs("celery") | _with_needs("redis")
    owners = packages_distributions()
    absent = [top for top, names in owners.items() if not image & {*map(canonicalize_name, names)}]
    assert {"django", "psycopg", "openai", "pytest"} <= set(absent)
    dockerfile.stage_files(STAGES["bench"], ROOT, tmp_path)
    environment = {"PATH": os.environ["PATH"], "ASSAY_DATA": str(tmp_path / "data")}
    environment["CELERY_BROKER_URL"] = "redis://127.0.0.1:9/0"
    command = [sys.executable, "-c", REFUSE, json.dumps(absent)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _with_needs(name: str) -> set[str]:
    found, waiting = set(), [name]
    while waiting:
        found.add(one := canonicalize_name(waiting.pop()))
        needs = [Requirement(text) for text in requires(one) or []]
        wanted = [n.name for n in needs if n.marker is None or n.marker.evaluate({"extra": ""})]
        waiting += [other for other in wanted if canonicalize_name(other) not in found]
    return found


def test_sqlite_is_copied_while_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    source = sqlite3.connect(tmp_path / "var" / "assay.sqlite3")
    source.execute("PRAGMA journal_mode=WAL")
    source.execute("CREATE TABLE paper (id)")
    source.execute("INSERT INTO paper VALUES (1)")
    source.commit()
    source.execute("INSERT INTO paper VALUES (2)")  # open: another process is writing
    line = next(line for line in OPERATE.splitlines() if line.startswith("    python3 -c"))
    subprocess.run(["sh", "-ec", line.strip()], cwd=tmp_path, check=True)
    copy = sqlite3.connect(tmp_path / "assay-copy.sqlite3")
    assert copy.execute("SELECT count(*) FROM paper").fetchone() == (1,)
