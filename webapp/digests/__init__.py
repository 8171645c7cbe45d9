"""Profiles of readers, and the scores, digests and feeds built from them."""
