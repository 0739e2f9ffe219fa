"""What a command or a scheduler starts: whole runs, and what stands beside them."""
