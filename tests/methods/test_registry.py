"""Methods are found by name, cheaply."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import methods
from methods import registry
from methods.errors import UnknownNameError
from tests.methods.conftest import TOYS
from tests.processes import ROOT

IMPORT = """
import json, sys, time
begun = time.process_time()
import methods.registry
took = time.process_time() - begun
methods.registry.slugs()
print(json.dumps([took, sorted(name for name in sys.modules if "." not in name)]))
"""
HEAVY = {"torch", "numpy", "transformers", "django", "celery", "pydantic", "webapp", "workers"}


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(TOYS)])
    registry.get.cache_clear()


def import_once() -> tuple[float, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    took, modules = json.loads(done.stdout)
    return took, set(modules)


def test_importing_the_registry_loads_only_the_standard_library_in_under_100_ms() -> None:
    assert not import_once()[1] & HEAVY
    assert any(import_once()[0] < 0.1 for _ in range(7))


def test_every_specification_is_read_without_torch() -> None:
    code = "import sys; from methods import registry; registry.all_methods(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {name.partition(".")[0] for name in done.stdout.split()} & (HEAVY - {"pydantic"})


@pytest.mark.usefixtures("toy")
def test_a_benchmark_is_found_by_its_full_name() -> None:
    method, benchmark = registry.find("toy.right")
    assert (method.slug, benchmark.slug) == ("toy", "right")
    assert "toy" in registry.slugs()
    assert registry.load("toy", "checks:sums").__name__ == "sums"


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("toyy.right", "no method is called 'toyy'; did you mean 'toy'?"),
        ("toy.rigth", "no benchmark of toy is called 'rigth'; did you mean 'right'?"),
        ("toy", "no benchmark is called 'toy'; "),
        ("../toy.right", "no method is called"),
        ("", "no method is called ''"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, said: str) -> None:
    with pytest.raises(UnknownNameError, match=r"(did you mean|known)") as caught:
        registry.find(name)
    assert said in str(caught.value)


def test_a_folder_must_hold_the_method_it_is_named_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "spec.py").write_text(
        "from methods.spec import Method\nMETHOD = Method(slug='else_', title='', description='')"
    )
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    with pytest.raises(ValueError, match="calls itself 'else_'"):
        registry.get("other")


def test_a_parameter_of_free_text_is_never_public() -> None:
    """No public parameter names a folder, file or hub of a machine."""
    free = {
        f"{method.slug}.{benchmark.slug} {info.name}"
        for method in registry.all_methods()
        for benchmark in method.benchmarks
        for info in benchmark.parameters()
        if info.kind == "text" and not info.local and not info.model
    }
    assert {name for name in free if not name.startswith(("toy.", "trial."))} == set()
