"""Readers of what users write: networks, systems, communicator groups, remote memory."""
