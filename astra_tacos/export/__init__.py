"""Schedules as files that other programs read."""
