"""`python -m benchmarks.search`."""

from benchmarks.search import main

main()
