"""The other site that benchmarks measure beside ours is found, filled and asked; or is missed."""

from datetime import date
from pathlib import Path

import pytest

from benchmarks.sanity import measure, python_of
from webapp.papers.models import Paper

SERVE = """
from pathlib import Path

def app(environ, start_response):
    start_response("200 OK", [])
    asked = f"{environ['PATH_INFO']}?{environ['QUERY_STRING']}"
    stored = "".join(Path("data", name).read_text() for name in ("papers", "metas", "features"))
    return [f'"summary" {asked} {stored}'.encode()]
"""
COMPUTE = """
from pathlib import Path

if __name__ == "__main__":
    Path("data/features").write_text(f"made of {Path('data/papers').read_text()}")
"""
STORES = """
from contextlib import contextmanager
from pathlib import Path

class Store(dict):
    def commit(self):
        Path("data", self.name).write_text(str(dict(self)))

@contextmanager
def opened(name, flag, autocommit):
    store = Store()
    store.name = name
    yield store

def get_papers_db(**how):
    return opened("papers", **how)

def get_metas_db(**how):
    return opened("metas", **how)
"""


def checkout(folder: Path, serve: str = SERVE) -> Path:
    """Files with the names and the doors of arxiv-sanity-lite's."""
    (folder / "aslite").mkdir()
    for name, text in {"serve": serve, "compute": COMPUTE, "aslite/db": STORES}.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_copy_is_filled_and_asked_and_the_checkout_stays_as_it_is(tmp_path: Path) -> None:
    made = checkout(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    paper = Paper(arxiv_id="2606.00001", title="T", abstract="A", announced_on=date(2026, 6, 12))
    (_, front), (_, search) = measure(made, [paper], ["/", "/?q=language+model"])
    assert front.startswith('"summary" /? {')
    assert search.startswith('"summary" /?q=language+model {')
    assert front.count("'_id': '2606.00001'") == 2  # stored, and read again for the features
    assert "Jun 12 2026" in front
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_no_checkout_is_said(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"{tmp_path} is no checkout of arxiv-sanity-lite"):
        python_of(tmp_path)


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        ("from no_such_flask import Flask", "needs the package no_such_flask, which .*python"),
        ("raise OSError('no disk')", "(?s)does not start: .*OSError: no disk"),
    ],
)
def test_what_it_lacks_is_said(tmp_path: Path, serve: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        python_of(checkout(tmp_path, serve))
