"""Profiles: checked, stored, edited, previewed, and imported from a seed configuration."""
