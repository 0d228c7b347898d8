"""Readers of what users write: network files now."""
