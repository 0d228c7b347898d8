"""Fabrics: graphs of NPUs and devices that forward, made by kind or read from other tools' files."""
