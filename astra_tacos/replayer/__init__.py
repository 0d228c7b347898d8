"""Embedded discrete-event replay of schedules and traces."""
