"""Runs before they are planned: generated, imported, checked and repaired."""
