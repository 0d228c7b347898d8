"""The command line: each command parses its arguments, calls the library, prints, and exits with a code."""
