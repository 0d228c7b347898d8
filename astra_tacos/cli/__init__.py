"""The command line: each command parses, calls the library, prints, and leaves with an exit code."""
