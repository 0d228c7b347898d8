"""Networks as arrays of directed links."""
