"""The web server: how gunicorn serves the site, and how a container asks whether it does."""
