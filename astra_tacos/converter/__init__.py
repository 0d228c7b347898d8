"""Converter: other people's programs (MSCCL XML), once proven, as schedules of a network."""
