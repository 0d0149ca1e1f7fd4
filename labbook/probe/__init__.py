"""The code that runs inside every Python process of a recorded command.

An island: standard library only, Python 3.8 syntax, imports nothing of labbook. It never raises, never prints, never
draws a random number and never changes a result; each failure of its own is counted and told in the entry.
"""
