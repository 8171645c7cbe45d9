"""The web server: gunicorn's configuration, and a health check for its container."""
