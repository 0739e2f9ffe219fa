"""The demo: a catalogue, an embedded bucket, and Airflow over both. `make demo` and `make airflow` start it."""
