"""What a paper reports: a grammar of numbers, quotes of abstracts, grounding, tables."""
