"""TF-IDF and linear weights in plain Python: what a site applies, trained elsewhere."""
