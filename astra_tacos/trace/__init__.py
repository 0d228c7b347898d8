"""Chakra execution traces: their schema, and files to and from columns."""
