"""What other threads print while the check for NaN runs reaches the screen."""

import os
import sys

from labbook.probe.frameworks.paddle_silence import others, silenced

CHECK = b"""[PRECISION] [ERROR] in [device=cpu, op=sqrt_grad, tensor=, dtype=fp32], numel=2, num_nan=0, num_inf=1
  File "train.py", line 10, in <module>
    paddle.sqrt(w).sum().backward()

"""
WARNS = b"""W1122 03:14:10.534066  6884 nodes.cc:60577] There are nan/inf in (sqrt_grad)
W1122 03:14:10.534145  6884 backward.cc:685] While running Node (SqrtGradNode) raises an EnforceNotMet exception
"""


def test_only_the_lines_of_the_check_are_dropped():
    assert others(CHECK) == others(WARNS) == b""
    assert others(b"epoch 1\n" + CHECK + b"epoch 2\n  indented\n\n" + WARNS) == b"epoch 1\nepoch 2\n  indented\n\n"
    assert others(b"no end of line") == b"no end of line"


def test_what_somebody_else_prints_is_printed(capfd):
    print("before")
    with silenced():
        os.write(1, CHECK + b"a thread\n")
        os.write(2, WARNS + b"an error\n")
    print("after")
    sys.stdout.flush()
    assert capfd.readouterr() == ("before\na thread\nafter\n", "an error\n")
