"""All tests.

They start hundreds of processes, so bytecode is kept, also where the environment says that none
should be: without it each of them compiles every module again, three seconds of torch's alone.
"""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
