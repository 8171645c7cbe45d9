"""Readers, and their one-time sign-in links."""
