"""The synthesizers that users can name, one module each."""
