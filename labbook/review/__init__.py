"""Reading training code without running it: syntax trees of PyTorch and PaddlePaddle programs, and rules over them.

Nothing is imported or executed. A rule follows names, functions and classes through the files that it is given, and
says nothing where it cannot follow them.
"""
