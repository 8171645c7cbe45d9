"""Whether the house stands: heartbeats, health checks and metrics. Known by no other room."""
