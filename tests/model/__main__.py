"""`python -m tests.model` is the soak."""

from tests.model.soak import main

main()
