"""Summaries and claims of papers by a model, each grounded or marked."""
