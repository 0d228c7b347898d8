"""Directed graphs with lengths: shortest ways between vertices, and groups of vertices that reach one another."""

from astra_tacos.support.graph.graph import NONE_BEFORE, Graph

__all__ = ["NONE_BEFORE", "Graph"]
