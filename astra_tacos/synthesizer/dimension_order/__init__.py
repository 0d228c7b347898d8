"""Algorithms in which chunks spread through one dimension after another."""
