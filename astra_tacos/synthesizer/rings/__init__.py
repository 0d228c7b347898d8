"""Rings through all NPUs of a network."""
