"""Schedules: columns of sends, their delays, and their storage."""
