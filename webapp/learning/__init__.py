"""TF-IDF and linear models in plain Python."""
