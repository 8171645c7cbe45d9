"""arXiv's papers, their versions, and a provable intake."""
