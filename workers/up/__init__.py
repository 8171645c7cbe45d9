"""`manage.py up`: everything on one machine, as children of one supervisor."""
