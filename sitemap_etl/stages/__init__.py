"""The stages before and after publishing: each a function of a run and a number that leaves a receipt."""
