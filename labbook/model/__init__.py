"""What labbook talks about: frozen dataclasses without input or output.

`Run` is the entrance: everything that is known of one execution of a command. The journal is folded into a `Run`, and
entry, index, reports and site are made from it and from nothing else.
"""
