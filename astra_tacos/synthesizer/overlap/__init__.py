"""All-Reduces whose two phases share the links."""
