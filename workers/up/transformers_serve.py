"""`transformers serve` for a model of Hugging Face's hub, where there is a GPU.

`python -m workers.up.transformers_serve FOLDER NAME PORT`: NAME is a folder in FOLDER, or a
repository in the hub's cache. What it needs of the GPU's memory is reckoned before.
"""

import os
import subprocess
import sys
from pathlib import Path

from assay_common.parent_death import die_with_parent
from workers.up.llama import SHARE, ModelFileError

BESIDE = 2_000_000_000  # bytes of the GPU that keys, values and the computation take
WEIGHTS = "*.safetensors"
FILES = [WEIGHTS, "*.json", "*.jinja", "*.txt", "*.model"]  # of a repository that are needed


def free_memory() -> int:
    """Bytes that are free on the GPU that has most; 0 where there is none."""
    ask = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, timeout=20, check=True).stdout
        return max(int(line) for line in said.split()) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0


def refuse_what_does_not_fit(folder: Path) -> None:
    """Raises ModelFileError where a folder has no model, or the GPU has no room for it."""
    weights = sum(file.stat().st_size for file in folder.glob(WEIGHTS))
    if not weights or not (folder / "config.json").is_file():
        raise ModelFileError(f"{folder} has no config.json with {WEIGHTS} beside it.")
    needed, free = weights + BESIDE, free_memory()
    if not free:
        raise ModelFileError("There is no GPU here, and without one only a GGUF file is served.")
    if needed > SHARE * free:
        raise ModelFileError(
            f"{folder.name} needs about {needed / 1e9:.1f} GB of the GPU; half of what is free "
            f"there is {SHARE * free / 1e9:.1f} GB. Choose a smaller model."
        )


def serve(folder: str, name: str, port: str) -> None:
    """Become the server, which ends with the process that started this one."""
    os.environ |= {"HF_HUB_OFFLINE": "1"}  # all that it needs is here
    os.chdir(folder)
    die_with_parent(os.getppid())
    os.nice(10)
    program = str(Path(sys.prefix) / "bin" / "transformers")
    where = ["--host", "127.0.0.1", "--port", port]
    os.execv(program, [program, "serve", name, *where])  # noqa: S606 (no shell is wanted)


if __name__ == "__main__":
    serve(*sys.argv[1:])
