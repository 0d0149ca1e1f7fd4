"""Settings of a training: config.yaml, changed by options such as `--lr 0.05`."""

import argparse
from pathlib import Path

import yaml


def read_settings(arguments=None):
    """Returns the settings as a namespace; every key of the file is an option of the command line."""
    finder = argparse.ArgumentParser(add_help=False)
    finder.add_argument("--config", type=Path, default=Path(__file__).parent / "config.yaml")
    known, _ = finder.parse_known_args(arguments)
    values = yaml.safe_load(known.config.read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(parents=[finder])
    for name, value in values.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return parser.parse_args(arguments)
