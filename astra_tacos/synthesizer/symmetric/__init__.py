"""Symmetric synthesis: one tree, or one path per target, that all NPUs use alike. See docs/symmetric.md."""
