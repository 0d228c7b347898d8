"""The search over synthesizers, numbers of chunks and seeds."""
