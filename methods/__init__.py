"""Reference methods and the kernel that measures them.

A method is a folder beside this file with a ``spec.py``. Folders named in ``ASSAY_METHODS_PATH``
(separated like ``PATH``) may hold further methods: they are imported as ``methods.<folder>``, so a
method moves into this tree without a changed line.
"""

import os

__path__ += [root for root in os.environ.get("ASSAY_METHODS_PATH", "").split(os.pathsep) if root]
