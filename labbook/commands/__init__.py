"""One verb, one file: its options and one call into the floor below. `cli.py` lists them."""
