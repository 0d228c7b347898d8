"""The oracle: does a schedule, a trace or a program compute its collective, legally? Shares no code with what it judges."""
