"""Reports that people look at: one self-contained HTML page each."""
