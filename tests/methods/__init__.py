"""Tests of the measuring kernel and of each method."""

# Methods with claims and a recorded example; a new one begins without.
SHIPPED = ("concept_lm", "seps", "sparse_attention", "token_pruning")
