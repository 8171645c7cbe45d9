"""Modules that an import loads: rules that only a running interpreter can prove."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

SITE = """
import importlib, json, os, pkgutil, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
import django
django.setup()
import webapp
for module in pkgutil.walk_packages(webapp.__path__, "webapp."):
    importlib.import_module(module.name)
print(json.dumps(sorted(sys.modules)))
"""
WITHOUT = """
import importlib, json, os, sys
absent = json.loads(sys.argv[1])
class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent)
os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"
for module in ("webapp.wsgi", "webapp.urls", "workers.site.tasks"):
    importlib.import_module(module)
from methods import registry
registry.all_methods()
print(json.dumps(sorted(sys.modules)))
"""
ONE = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(sys.modules)))
"""
BENCH_WORKER = """
import json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "webapp.settings"  # as `up` leaves it to its children
from methods.worker.app import app
app.loader.init_worker()
print(json.dumps(sorted(sys.modules)))
"""
# Modules that stay light, and what loading them never loads. Those not built yet wait here.
LIGHT = {
    "bootstrap": {"django", "celery", "torch", "webapp", "methods", "workers"},
    "methods.charts": {"django", "celery", "torch", "transformers", "webapp", "workers"},
    "methods.protocol": {"django", "celery", "torch", "transformers", "webapp", "workers"},
    "methods.registry": {"django", "celery", "torch", "transformers", "webapp", "workers"},
    "methods.spec": {"django", "celery", "torch", "transformers", "webapp", "workers"},
    # kombu itself takes a class from django.utils wherever Django is installed.
    "methods.worker.app": {"django.conf", "django.db", "torch", "transformers"},
    "workers.up.supervisor": {"django", "celery", "torch", "webapp", "methods"},
}


def exists(module: str) -> bool:
    path = ROOT / module.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def loaded_by(code: str, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        # With it Celery would import Django by itself; a test that imports workers.site sets it.
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_site_and_its_methods_do_with_what_it_installs() -> None:
    """`up` serves before PyTorch and the rest are there; the image of the site never has them."""
    lock = (ROOT / "requirements/web.txt").read_text()
    there = {re.sub("[-_.]+", "-", name) for name in re.findall(r"^([\w.-]+)==", lock, re.M)}
    absent = [
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if not {re.sub("[-_.]+", "-", name).lower() for name in packages} & there
    ]
    assert {"torch", "hypothesis", "mcp"} <= set(absent)
    assert "workers.site.tasks" in loaded_by(WITHOUT, json.dumps(absent))


def test_the_whole_site_loads_nothing_slow() -> None:
    assert not loaded_by(SITE) & {"torch", "transformers", "openai", "workers", "numpy"}


@pytest.mark.parametrize("module", [name for name in LIGHT if exists(name)])
def test_a_light_module_stays_light(module: str) -> None:
    assert not loaded_by(ONE, module) & LIGHT[module]


def test_a_bench_worker_loads_nothing_of_the_site_beside_it() -> None:
    loaded = loaded_by(BENCH_WORKER)
    assert "methods.worker.app" in loaded
    assert not {name for name in loaded if name.startswith(("webapp", "django.conf", "django.db"))}
