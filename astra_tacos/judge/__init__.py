"""Judges: how long schedules and runs take on each of ASTRA-sim's network models, whichever they were made for."""
