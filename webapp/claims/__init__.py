"""Numbers that papers report: their grammar, quotes of abstracts, grounding, and result tables."""
