"""The oracle: whether a schedule, a trace or a program computes its collective legally. It shares no code with what it judges."""
