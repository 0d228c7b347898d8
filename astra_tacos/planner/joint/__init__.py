"""Collectives of several groups that run one joint schedule."""
