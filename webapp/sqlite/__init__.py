"""Django's backend for SQLite, for a file that is not always there to be written."""
