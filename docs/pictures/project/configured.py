"""Reads its configuration as many programs do: `train.py` with a YAML file."""

import argparse
import runpy
import sys
from pathlib import Path

import yaml

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", required=True)
parser.add_argument("--warmup", type=int, default=0)
parser.add_argument("--lr", type=float, default=0.1)
args = parser.parse_args()
cfg = yaml.safe_load(Path(args.config).read_text(encoding="utf-8"))

sys.argv = ["train.py", "--lr", str(args.lr), "--epochs", str(cfg["epochs"])]
runpy.run_path("train.py", run_name="__main__")
