"""`python -m benchmarks.gpu` on the CPU at tiny sizes: parts, deadlines, what is left of them."""

import json
import zipfile
from pathlib import Path

from benchmarks import gpu
from methods.protocol import Line, Series


def ended(out: Path) -> dict[str, str]:
    return {one["name"]: one["how"] for one in json.loads((out / "summary.json").read_text())}


def test_a_part_leaves_its_events_and_the_summary(tmp_path: Path) -> None:
    arguments = ["--device", "cpu", "--tiny", "--only", "decode", "--out", str(tmp_path)]
    assert gpu.main(arguments) == 0
    assert ended(tmp_path) == {"decode": "done"}
    lines = (tmp_path / "decode.jsonl").read_text().splitlines()
    bodies = [Line.parse(text).body for text in lines]
    series = {body.name for body in bodies if isinstance(body, Series)}
    assert series == {"decode", "choice"}


def test_a_part_ends_at_its_deadline_and_a_later_one_is_not_begun(tmp_path: Path) -> None:
    only = ["--only", "check-token_pruning", "prefill"]
    arguments = ["--device", "cpu", "--tiny", *only, "--out", str(tmp_path), "--minutes", "0.1"]
    assert gpu.main(arguments) == 1  # whoever started it sees that there is more
    found = ended(tmp_path)
    assert found["check-token_pruning"] == "stopped at its deadline"
    assert found["prefill"].startswith("not begun")


def test_a_part_that_fails_is_said_and_the_others_run(tmp_path: Path) -> None:
    part = gpu.Part("wrong", ("run", "sparse_attention.none"), 60)
    assert gpu.run(part, tmp_path, 60, gpu.carried(None, tmp_path)).how.startswith("failed")
    assert "sparse_attention" in (tmp_path / "wrong.log").read_text()


def test_wheels_are_carried_to_the_parts(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "thing-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("thing/__init__.py", "")
    environment = gpu.carried(tmp_path, tmp_path / "packages")
    assert environment["PYTHONPATH"].startswith(str(tmp_path / "packages"))
    assert (tmp_path / "packages" / "thing" / "__init__.py").exists()


def test_every_part_names_what_exists() -> None:
    every = [part.name for part in gpu.parts("cuda", tiny=False)]
    assert len(every) == len(set(every)) == 10
