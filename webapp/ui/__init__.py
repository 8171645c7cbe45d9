"""Shared parts of pages: mathematics, sanitising, template tags, static assets."""
