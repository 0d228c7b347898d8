"""Reports: summaries, tables, figures and HTML pages."""
