"""Servers to connect, health, doctor and archives: the operator's side of a site."""
