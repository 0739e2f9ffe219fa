"""What a site remembers between runs."""
