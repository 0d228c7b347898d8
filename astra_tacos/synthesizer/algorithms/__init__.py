"""The synthesizers that users name."""
