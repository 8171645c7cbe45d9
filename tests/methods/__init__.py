"""Tests of the measuring kernel and of each method."""
