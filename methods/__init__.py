"""Reference methods and the kernel that measures them.

A method is a folder beside this file with a ``spec.py``. Folders named in ``ASSAY_METHODS_PATH``
(separated like ``PATH``) may hold further methods: they are imported as if they stood here.

In a checkout of Assay this package is ``methods``, installed it is ``assay_methods``. Methods of
others know it by the second name, which in a checkout is the first one's: no class exists twice.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

INSTALLED_AS = "assay_methods"

__path__ += [root for root in os.environ.get("ASSAY_METHODS_PATH", "").split(os.pathsep) if root]


class _SecondName:
    """Imports ``assay_methods.x`` as the module ``methods.x``."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module of ours; None for those of others."""
        is_ours = name.partition(".")[0] == INSTALLED_AS
        return ModuleSpec(name, _SecondName()) if is_ours else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module, loaded under its first name where it was not."""
        module = import_module(__name__ + spec.name.removeprefix(INSTALLED_AS))
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run again; the module goes on to know itself by its first name."""
        module.__spec__ = self._spec


if __name__ != INSTALLED_AS:
    sys.meta_path.insert(0, _SecondName())  # before a copy that may be installed as well
