"""The command line: a table of verbs, loaded when they are chosen, and the only place that prints errors.

Exit codes: 0 fine, 1 nothing found, 2 usage, 3 notebook or configuration, 4 git, 70 a bug in labbook. `labbook record`
ends with the status of the command that it recorded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

import click

from labbook import __version__
from labbook.errors import LabbookError

COMMANDS = {
    "record": ("labbook.commands.record", "Run a command and write its entry."),
    "show": ("labbook.commands.show", "Show the entry of a run."),
    "list": ("labbook.commands.list", "List runs, newest first."),
    "compare": ("labbook.commands.compare", "Show where two runs differ."),
    "fix": ("labbook.commands.fix", "Note what cured a failed run."),
    "search": ("labbook.commands.search", "Search entries and notes, in English or Chinese."),
    "diagnose": ("labbook.commands.diagnose", "Say what went wrong in a run, a log or a pasted message."),
    "review": ("labbook.commands.review", "Read training code without running it and name what is wrong."),
    "symptoms": ("labbook.commands.symptoms", "List known symptoms, and how often they were seen here."),
    "explain": ("labbook.commands.explain", "Explain a symptom: why it happens and what to try."),
    "report": ("labbook.commands.report", "Write the report of a week."),
    "new": ("labbook.commands.new", "Start an experiment."),
    "commit": ("labbook.commands.commit", "Commit what you wrote in notes."),
    "init": ("labbook.commands.init", "Make a team notebook here."),
    "site": ("labbook.commands.site", "Build or serve the site of the notebook."),
    "serve": ("labbook.commands.serve", "Show the site on this machine, always up to date."),
    "watch": ("labbook.commands.watch", "Build the site again whenever an entry changes."),
    "recover": ("labbook.commands.recover", "Finish the entries of runs whose recorder died."),
    "redact": ("labbook.commands.redact", "Check files for secrets and personal paths."),
    "doctor": ("labbook.commands.doctor", "Say what works here and what does not."),
    "completion": ("labbook.commands.completion", "Print the line that switches shell completion on."),
}
"""Verb -> module and summary; the module is imported when the verb is used and has a `command`."""

_EXIT_BUG = 70


class CommandTable(click.Group):
    """A group whose commands are imported when they are chosen, so that `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of one verb, or `None`."""
        if cmd_name not in COMMANDS:
            return None
        loaded = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(loaded, click.Command)
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant.

        Raises:
            click.UsageError: There is none of that name; the nearest one is named.
        """
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            meant = f"; did you mean `labbook {near[0]}`?" if near else ""
            recorded = f"\nTo record it as a command: labbook record -- {' '.join(args)}"
            ctx.fail(f"there is no command {args[0]!r}{meant}{'' if near else recorded}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the table of verbs from its summaries, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


_EPILOG = """\b
Examples:
  labbook record -- python train.py --lr 0.1
  labbook record -- torchrun --nproc-per-node 2 train.py
  labbook show last
  labbook search "loss nan" framework:torch
  labbook report --week
"""


@click.group(
    cls=CommandTable,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(version=__version__, prog_name="labbook")
def labbook() -> None:
    """A laboratory notebook that writes itself.

    Put `labbook record --` in front of a training command: the run becomes a Markdown entry, committed to git. Without
    a labbook.toml above the working folder, entries go to your personal notebook; `labbook init` makes a team notebook.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns the exit code; the entrance of the console script."""
    try:
        result = labbook.main(args=arguments, prog_name="labbook", standalone_mode=False)
        return int(result) if isinstance(result, int) else 0
    except LabbookError as error:
        _say_error(error.message, error.hint)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        click.echo("labbook: interrupted", err=True)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`labbook list | head`): nothing to tell, and nothing may be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from labbook.crash_report import write_crash_report

        path = write_crash_report(error)
        _say_error(f"a bug in labbook: {type(error).__name__}: {error}", f"a report for the developers is in {path}")
        return _EXIT_BUG


def _say_error(message: str, hint: str) -> None:
    with suppress(OSError):  # standard error may be full or closed: the exit code says it all the same
        click.echo(f"labbook: {message}", err=True)
        if hint:
            click.echo(f"         {hint}", err=True)


if __name__ == "__main__":
    sys.exit(main())
