"""All tests.

They start hundreds of processes, so bytecode is kept, also where the environment says that none
should be: without it each of them compiles every module again, three seconds of torch's alone.
"""

import os
import sys
from pathlib import Path

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Triton decides as it is imported, which torch does, whether an interpreter runs its kernels.
if not Path("/dev/nvidiactl").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")
