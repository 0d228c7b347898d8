"""Readers of configuration files: networks, systems, communicator groups, remote memory."""
