"""Pages and figures of what commands and functions wrote."""
