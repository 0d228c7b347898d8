"""Chakra execution traces: their schema, and conversion of files to and from columns."""
