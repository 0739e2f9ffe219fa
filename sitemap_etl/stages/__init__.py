"""The stages of a run, as functions: plan, extract, merge, transform, settle, partition, align, render, ping."""
