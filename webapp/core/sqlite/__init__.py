"""Django's SQLite backend for a file that is not always writable."""
