"""Celery applications: beside the database (site) and on a machine that measures (bench)."""
