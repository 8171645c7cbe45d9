"""Scoring of papers by the keywords of profiles, without the database."""
