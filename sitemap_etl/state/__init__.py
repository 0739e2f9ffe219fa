"""State of a site between runs: records, their storage, and their keys."""
