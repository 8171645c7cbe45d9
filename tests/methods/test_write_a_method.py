"""The page on writing a method is followed to the letter."""

import re
import shlex
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest
from django.test import Client

from methods import registry
from methods.protocol import Result, Series
from tests import factories
from tests.methods.conftest import Done, _beside_the_real_ones, lines
from tests.processes import ROOT
from webapp.catalog import linking
from webapp.papers.models import Paper
from webapp.runs.results import import_file

PAGE = (ROOT / "docs" / "write-a-method.md").read_text()
FILES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE, re.DOTALL))
OURS = PAGE[PAGE.index("## 1. ") : PAGE.index("## A package of your own")]  # the skeleton: test_new
COMMANDS = re.findall(r"^\$ python -m methods (.+)$", OURS, re.MULTILINE)
# A busy machine never looks steady: each variant of each process would warm up for three seconds.
AT_ONCE = ("--set", "processes=2", "--set", "max_warm_up_s=0")


def test_the_pages_own_example_runs_as_it_stands(cli: Callable[..., Done], tmp_path: Path) -> None:
    assert set(FILES) == {
        f"low_rank/{name}.py" for name in ("__init__", "spec", "model", "checks", "bench")
    }
    assert {command.split()[0] for command in COMMANDS} == {"describe", "check", "run"}
    roots = tmp_path / "roots"
    for name, code in FILES.items():
        path = roots / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    for command in COMMANDS:
        more = AT_ONCE if command.startswith("run ") else ()
        done = cli(*shlex.split(command), *more, roots=roots)
        assert done.returncode == 0, (command, done.stderr)
    assert (tmp_path / "plots" / "low_rank.latency-forward-ratio.svg").is_file()
    events = lines((tmp_path / "result.jsonl").read_text())
    assert isinstance(events[-1].body, Result)
    (series,) = (event.body for event in events if isinstance(event.body, Series))
    assert {point.x for point in series.points} == {128, 256}


@pytest.mark.django_db
def test_a_paper_that_is_implemented_has_its_claim_beside_a_measurement(
    cli: Callable[..., Done], tmp_path: Path, client: Client
) -> None:
    (line,) = re.findall(r"^\$ assay-methods (new .+ --paper .+)$", PAGE, re.MULTILINE)
    package, result = tmp_path / "my-methods", tmp_path / "result.jsonl"
    assert cli(*shlex.split(line)).returncode == 0
    small = ("processes=5", "seconds=0", "max_warm_up_s=0", "sizes=512")
    settings = [word for setting in small for word in ("--set", setting)]
    run = ("run", "video_mla.latency", "--preset", "quick", *settings, "--json", result)
    done = cli(*run, roots=package)
    assert done.returncode == 0, done.stderr
    with _beside_the_real_ones(package):
        try:
            assert import_file(result)
            paper = factories.make_paper(
                1, arxiv_id="2605.30351", title="VideoMLA", abstract="VideoMLA stores less.",
                announced_on=factories.DAY,
            )  # fmt: skip
            linking.link(Paper.objects.all())
            page = client.get(f"/papers/{paper.arxiv_id}/").content.decode()
        finally:
            registry.get.cache_clear()
    answer = page[page.index('id="testable"') : page.index("Why this method")]
    assert "<b>Yes.</b>" in answer
    assert '<b class="num">1.23×</b>' in answer
    assert re.search(r'<b class="num">[\d.]+×</b></a>', answer), answer


@pytest.mark.django_db
@pytest.mark.parametrize("ratio", ["2.1x", "2.1×", "2.1 times", r"2.1$\times$"])
def test_the_command_on_a_papers_page_writes_a_package(
    cli: Callable[..., Done], tmp_path: Path, client: Client, ratio: str
) -> None:
    abstract = f"We fold layers. Decoding is {ratio} faster than the authors' baseline on a GPU."
    paper = factories.make_paper(1, arxiv_id="2605.30350", title="Folding", abstract=abstract)
    page = client.get(f"/papers/{paper.arxiv_id}/").content.decode()
    (command,) = re.findall(r'<pre id="implement"[^>]*>(.*?)</pre>', page, re.DOTALL)
    _, _, *arguments = shlex.split(unescape(command).replace("\\\n", ""))
    assert cli(*arguments[1:]).returncode == 0
    spec = (tmp_path / "my-method" / "my_method" / "spec.py").read_text()
    compile(spec, "spec.py", "exec")
    assert 'paper="2605.30350"' in spec
    assert "value=2.1," in spec


@pytest.mark.django_db
def test_a_paper_without_a_ratio_has_no_command(client: Client) -> None:
    paper = factories.make_paper(
        1, title="Folding", abstract="We fold layers. Accuracy rises by 2 points to 71.3%."
    )
    assert "Implement it" not in client.get(f"/papers/{paper.arxiv_id}/").content.decode()


@pytest.mark.parametrize(
    "more",
    [
        ("--paper", "low rank"),
        ("--quote", "2.1x faster"),
        ("--paper", "2605.30351", "--quote", "much faster"),
    ],
)
def test_what_names_no_paper_or_ratio_is_refused(
    cli: Callable[..., Done], tmp_path: Path, more: tuple[str, ...]
) -> None:
    done = cli("new", "thin", "--to", tmp_path / "thin", *more)
    assert done.returncode == 2
    assert "2605.30351" in done.stderr or "2.1x" in done.stderr
    assert not (tmp_path / "thin").exists()


FOR_THE_RUNNER = {"release", "adopt", "relay"}


def test_the_page_names_every_exit_code_and_the_whole_context() -> None:
    from methods.context import Context
    from methods.runner import EXIT_CHECK, EXIT_ERROR, EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK

    for code in (EXIT_OK, EXIT_CHECK, EXIT_INPUT, EXIT_ERROR, EXIT_INTERRUPTED):
        assert f"\n| {code} | " in PAGE
    public = {name for name in vars(Context) if not name.startswith("_")} - FOR_THE_RUNNER
    assert all(f"`ctx.{name}(" in PAGE for name in public)
