"""The stages, wired to the world."""
