"""Runs a command under labbook's terminal, keeps its output in a folder, and ends as the command ended.

    python record_child.py FOLDER [--full-pty] [--start FILE] [--end FILE] -- COMMAND...

FILE of --start gets the ids of this process and of the command; FILE of --end gets how it ended, as JSON.
"""

import argparse
import dataclasses
import json
import os
import sys
from pathlib import Path

from labbook.capture.console.console_sink import ConsoleSink
from labbook.errors import UsageError
from labbook.probe.redaction.redactor import Redactor
from labbook.probe.redaction.known_secrets import known_values
from labbook.record.child.supervisor import exit_like_child, run_child


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--full-pty", action="store_true")
    parser.add_argument("--start", type=Path)
    parser.add_argument("--end", type=Path)
    parser.add_argument("--head", type=int, default=1 << 20)
    parser.add_argument("--tail", type=int, default=4 << 20)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    def started(pid):
        if options.start:
            options.start.write_text(f"{os.getpid()} {pid}\n")

    redactor = Redactor(known_values(dict(os.environ), options.command))
    sink = ConsoleSink(options.folder, redactor, options.head, options.tail)
    try:
        end = run_child(
            options.command,
            env=dict(os.environ),
            cwd=Path.cwd(),
            sink=sink,
            full_pty=options.full_pty,
            on_start=started,
        )
    except UsageError as error:
        print(f"labbook: {error.message}\n         {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    if options.end:
        options.end.write_text(json.dumps(dataclasses.asdict(end)))
    exit_like_child(end)


main()
