"""The publish stage: what a run proposes, the set as it should be and as it is, and the steps between."""
