"""The API for programs: papers, digests, methods, runs and a reader's library."""
