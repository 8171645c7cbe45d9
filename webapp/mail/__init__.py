"""Digests and alerts by mail: only when there is something, and one click ends it."""
