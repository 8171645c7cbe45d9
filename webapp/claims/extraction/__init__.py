"""Numbers that an abstract reports of its own work (`reported`), and their quotes (`quotes`)."""
