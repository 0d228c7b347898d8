"""Chunks that spread one dimension after another."""
