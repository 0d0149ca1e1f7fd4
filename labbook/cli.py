"""The command line: a table of verbs, loaded when they are chosen, and the only place that prints errors.

Exit codes: 0 fine, 1 nothing found, 2 usage, 3 notebook or configuration, 4 git, 70 a bug in labbook. `labbook record`
ends with the status of the command that it recorded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from labbook import __version__
from labbook.errors import LabbookError
from labbook.help_text import HelpGroup, terminal_language, translate_click
from labbook.screen import print_error

COMMANDS = {
    "record": ("labbook.commands.record", "Run a command and record it as an entry."),
    "sweep": ("labbook.commands.sweep", "Run a script with many combinations of options and record each."),
    "show": ("labbook.commands.show", "Show the entry of a run."),
    "list": ("labbook.commands.list", "List runs, newest first."),
    "graph": ("labbook.commands.graph", "Show the autograd graph of a run, or export its model as ONNX."),
    "compare": ("labbook.commands.compare", "Show the differences between runs."),
    "rerun": ("labbook.commands.rerun", "Run a recorded run again and record it."),
    "snapshot": ("labbook.commands.snapshot", "Keep a checkpoint of a run with the files needed to restore it."),
    "reproduce": ("labbook.commands.reproduce", "Run a recorded run again and compare the results."),
    "bisect": ("labbook.commands.bisect", "Find the difference between two runs that changed the result."),
    "fix": ("labbook.commands.fix", "Record what fixed a failed run."),
    "search": ("labbook.commands.search", "Search entries, notes and known symptoms."),
    "diagnose": ("labbook.commands.diagnose", "Diagnose a failed run, a log or an error message."),
    "review": ("labbook.commands.review", "Check training code for mistakes without running it."),
    "symptoms": ("labbook.commands.symptoms", "List known symptoms and how often they occurred."),
    "explain": ("labbook.commands.explain", "Explain a symptom: signs, causes, fixes, and runs with it."),
    "query": ("labbook.commands.query_sql", "Answer a SQL query over the runs of the notebook."),
    "export": (
        "labbook.commands.export",
        "Write all runs as Parquet, a note as a document, or curves as a log.",
    ),
    "artifact": ("labbook.commands.artifact", "Manage the files that runs have kept."),
    "report": ("labbook.commands.report", "Write the report of a week, a month, some days, or an experiment."),
    "new": ("labbook.commands.new", "Create an experiment and start it in this folder."),
    "import": ("labbook.commands.import_runs", "Import runs of TensorBoard, MLflow, W&B and others."),
    "commit": ("labbook.commands.commit", "Commit edited notes."),
    "sync": ("labbook.commands.sync", "Share the notebook with others through a git remote."),
    "move": ("labbook.commands.move", "Move a run to another notebook."),
    "name": ("labbook.commands.name", "Give a run a name."),
    "rm": ("labbook.commands.rm", "Remove a run, or an experiment with all its runs."),
    "init": ("labbook.commands.init", "Create a notebook in a folder."),
    "site": ("labbook.commands.site", "Build or serve the site of the notebook."),
    "serve": ("labbook.commands.serve", "Serve the site on this machine."),
    "watch": ("labbook.commands.watch", "Rebuild the site whenever a note changes."),
    "recover": ("labbook.commands.recover", "Finish interrupted entries and release withheld ones."),
    "redact": ("labbook.commands.redact", "Mask secrets and personal paths in files."),
    "doctor": ("labbook.commands.doctor", "Check the installation and the notebook."),
    "completion": ("labbook.commands.completion", "Print the line that enables shell completion."),
}
"""Verb -> module and summary; the module is imported when the verb is used and has a `command`."""

_EXIT_BUG = 70


class CommandTable(HelpGroup):
    """A group whose commands are imported when they are chosen, so that `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns all verbs, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns the command of one verb, or `None`."""
        if cmd_name not in COMMANDS:
            return None
        loaded = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(loaded, click.Command)
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Returns the command with its name and arguments.

        Raises:
            click.UsageError: There is no such command; names the nearest one.
        """
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches
            from shutil import which

            from labbook.store.text.sentences import Sentences

            say, name = Sentences(terminal_language()), args[0]
            near = get_close_matches(name, COMMANDS, n=1)
            if near:
                ctx.fail(say.line("errors.cli.near_command", name=name, near=near[0]))
            if which(name):
                ctx.fail(say.line("errors.cli.program", name=name, words=" ".join(args)))
            ctx.fail(say.line("errors.cli.no_command", name=name))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the table of verbs from its summaries, without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(
    cls=CommandTable,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(version=__version__, prog_name="labbook")
def labbook() -> None:
    """A laboratory notebook that writes itself.

    Put `labbook record --` in front of a training command: labbook records the run as a Markdown entry and commits it
    to git. `labbook init` creates a notebook for a project; without one, runs go to your personal notebook.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; the entry point of the console script."""
    translate_click()
    try:
        result = labbook.main(args=arguments, prog_name="labbook", standalone_mode=False)
        return int(result) if isinstance(result, int) else 0
    except LabbookError as error:
        print_error(*error.texts(error.language or terminal_language()))
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        print_error(*LabbookError("errors.cli.interrupted").texts(terminal_language()))
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`labbook list | head`): nothing may be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from labbook.crash_report import write_crash_report

        path = write_crash_report(error)
        bug = LabbookError("errors.cli.bug", kind=type(error).__name__, reason=str(error), path=path)
        print_error(*bug.texts(terminal_language()))
        return _EXIT_BUG


if __name__ == "__main__":
    sys.exit(main())
