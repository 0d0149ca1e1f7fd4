"""Repeatable comparisons: each prints ratios against its alternative, measured interleaved in the same run."""
