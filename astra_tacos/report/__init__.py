"""What people read: summaries and tables."""
