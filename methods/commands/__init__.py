"""The commands of ``python -m methods``: a module each, with ``configure`` and ``main``."""
