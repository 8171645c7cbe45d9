"""What a model says of a paper: summaries and claims, each grounded or marked."""
