"""Beside the database: the Celery application, its periodic tasks and its duties."""
