"""Calibrator: constants of a machine from measured times of programs."""
