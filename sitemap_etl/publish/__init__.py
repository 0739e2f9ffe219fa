"""The publish stage: propose a release, check gates, compare with the public files, and write the differences."""
