"""docker/Dockerfile, read: its stages, and the tree of files that a stage would hold."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    """One stage: what it builds on, and its instructions in order, as (word, rest)."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, word: str) -> list[str]:
        """What stands behind each instruction `word`."""
        return [rest for name, rest in self.instructions if name == word]

    def copies(self) -> list[tuple[list[str], str]]:
        """Each COPY: its sources and its target."""
        words = [shlex.split(rest) for rest in self.all("COPY")]
        return [(sources, target) for *sources, target in words]

    def environment(self) -> dict[str, str]:
        """What ENV sets."""
        pairs = (word.partition("=") for rest in self.all("ENV") for word in shlex.split(rest))
        return {name: value for name, _, value in pairs}

    def command(self) -> list[str]:
        """CMD, which must be an argument list."""
        return list(json.loads(self.all("CMD")[-1]))


def read(path: Path) -> dict[str, Stage]:
    """The stages of a Dockerfile by name, each with those it builds on flattened into it."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    stages: dict[str, Stage] = {}
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            below = stages[base].instructions if base in stages else []
            stage = stages[name] = Stage(name, base, list(below))
        elif word:
            stage.instructions.append((word, rest.strip()))
    return stages


def let_in(path: str, rules: list[str]) -> bool:
    """Whether the last rule of a .dockerignore that speaks of `path`, or of a folder of it, lets
    it into the build."""
    parts = path.split("/")
    names = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    inside = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        ends = pattern.removeprefix("**/")
        if any(
            fnmatch.fnmatch(name.rsplit("/", 1)[-1] if ends != pattern else name, ends)
            for name in names
        ):
            inside = rule.startswith("!")
    return inside


def stage_files(stage: Stage, context: Path, target: Path) -> None:
    """Copy into `target` what the stage's COPY instructions bring, through the .dockerignore."""
    rules = ignored(context / "docker" / "Dockerfile.dockerignore")
    for sources, place in stage.copies():
        for source in sources:
            found = context / source
            files = [p for p in found.rglob("*") if p.is_file()] if found.is_dir() else [found]
            for file in files:
                if not let_in(str(file.relative_to(context)), rules):
                    continue
                inner = file.relative_to(found) if found.is_dir() else Path(found.name)
                copy = target / place / inner
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


def ignored(path: Path) -> list[str]:
    """The rules of a .dockerignore, in order."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]
