"""Explanations of why a URL is listed or not."""
