"""The programming interface: runs asked for, followed and read by programs."""
