"""Semantic-enhanced patch slimming: patches of an image chosen and merged for a text.

Two variants, `open_source` and `paper`, behind one configuration (`config.SepsConfig`).
"""
