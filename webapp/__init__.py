"""The site: arXiv in, digests and feeds out, measured results beside claimed ones."""
