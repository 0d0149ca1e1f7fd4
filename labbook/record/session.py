"""Records one command: all steps of a run, from the command line to the committed entry."""

from __future__ import annotations

import os
import socket
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labbook.errors import NotebookError, UsageError
from labbook.probe.events.protocol import RULES_FILE
from labbook.record.child.start_errors import describe_error
from labbook.record.record_request import RecordRequest
from labbook.record.recording import PrintLine, Recording
from labbook.store.journal import create_journal, readable_text
from labbook.store.paths import new_run_id
from labbook.store.text.sentences import Sentences

if TYPE_CHECKING:
    from labbook.record.child.supervisor import ChildEnd
    from labbook.store.notebook import Notebook


def record(request: RecordRequest, print_line: PrintLine) -> ChildEnd:
    """Runs the command, writes and commits its entry, and returns how the command ended.

    Raises nothing once the command has started: failures of labbook are reported through `print_line`.

    Args:
        print_line: Prints one line to the user, on standard error; never raises.

    Raises:
        UsageError: The command does not exist or cannot be executed; nothing was started.
        Exception: The run cannot be recorded; nothing was started. `unrecorded.record_or_exec` handles it.
    """
    from labbook.record.child.signal_relay import restore_stops
    from labbook.record.child.supervisor import find_program

    find_program((*request.launcher, *request.argv)[0], os.environ, Path.cwd())
    session = open_session(request, print_line)
    try:
        end = session.run(request)
    except BaseException:
        session.discard()
        raise
    try:  # a call of `suppress` could fail as well, and the command would start a second time
        write_entry(session, request, end, print_line)
        restore_stops()
    except BaseException:
        pass  # not even Ctrl-C may change the status of a command that has ended
    return end


def write_entry(session: Recording, request: RecordRequest, end: ChildEnd, print_line: PrintLine) -> None:
    """Writes the entry and shows how the run ended; if that fails, `labbook recover` can repeat it."""
    from labbook.record.ci_report import report_to_ci
    from labbook.record.recovery import recover_pending

    sentences = session.sentences
    if end.trouble:
        print_line(sentences.line("record.incomplete", error=end.trouble))
    try:
        finished = session.finish(end)
    except (Exception, KeyboardInterrupt) as error:
        print_line(sentences.line("record.entry_failed", error=describe_error(error)))
        print_line(sentences.line("record.entry_retry", journal=str(session.journal.paths.root)))
        return
    if finished is None:
        return  # another task of the job writes the entry
    try:
        from labbook.record.end_summary import end_lines

        finished, book = finished.seen_from(request.started_in), session.notebook
        for line in end_lines(finished, sentences, book, quiet=session.quiet, is_fallback=session.is_fallback):
            session.print_line(line)
        if session.notebook.config.artifact_store:
            from labbook.artifacts.upload import start_upload

            start_upload(session.notebook)
        report_to_ci(finished, session.notebook.config, os.environ, quiet=request.quiet)
        recover_pending(session.notebook, print_line)
        if request.on_finished is not None:
            request.on_finished(finished)
    except Exception as error:
        print_line(sentences.line("record.later_step_failed", error=describe_error(error)))


def open_session(request: RecordRequest, print_line: PrintLine) -> Recording:
    """Opens a session in the requested notebook, or in the personal one if that fails.

    Raises:
        NotebookError: Neither can be used; the message has both reasons.
    """
    from labbook.store.config import unknown_settings
    from labbook.store.notebook_finder import find_notebook

    requested = partial(find_notebook, Path.cwd(), chosen=request.notebook, environ=dict(os.environ))
    personal = partial(find_notebook, Path("/"), chosen=None, environ={**os.environ, "LABBOOK_NOTEBOOK": ""})
    errors: list[Exception] = []
    for find in (requested, personal):
        try:
            notebook = find(flags=dict(request.flags))
            session = _create_session(notebook, request, print_line)
        except UsageError:
            raise  # a mistyped experiment: nothing has started, so the user can correct it
        except Exception as error:
            errors.append(error)
            continue
        for failure in errors:
            known = {"notebook": str(notebook.paths.root), "error": describe_error(failure)}
            print_line(session.sentences.line("record.personal_fallback", **known))
        session.is_fallback = bool(errors)
        for problem in unknown_settings(notebook.paths.root):
            print_line(session.sentences(problem))
        return session
    reasons = [describe_error(error) for error in errors]
    raise NotebookError("errors.record.no_notebook", reasons=reasons[:1] if reasons[0] == reasons[-1] else reasons)


def _create_session(notebook: Notebook, request: RecordRequest, print_line: PrintLine) -> Recording:
    """Creates the journal with everything known before the command starts."""
    from labbook.capture.command import find_program_file
    from labbook.capture.project import find_project
    from labbook.probe.redaction.structures import redact_argv
    from labbook.record.jobs.join_as_task import join_as_task
    from labbook.store.recorder_redaction import load_rules, make_redactor

    now = time.time()
    argv, notes, tags = (list(map(readable_text, words)) for words in (request.argv, request.notes, request.tags))
    own_rules = notebook.redaction_rules()
    redactor = make_redactor(dict(os.environ), argv, own_rules)
    program = find_program_file(request.argv, Path.cwd())
    script = redactor.text(readable_text(program.script))
    project = find_project(argv, Path.cwd(), notebook.paths.root)
    root = redactor.text(project.root)
    name, is_missing = redactor.text(project.name), program.is_missing and not request.launcher
    file = None if is_missing else program.path
    experiment = _find_experiment(notebook, script, request.experiment, name, root, file, is_missing=is_missing)
    day = notebook.paths.entry(new_run_id(now)).parent
    journal = create_journal(notebook.paths, now, [path.stem for path in day.glob("*.md")])
    start: dict[str, Any] = {
        "schema": 1,
        "id": journal.run_id,
        "argv": redact_argv(argv, redactor),
        "cwd": redactor.text(readable_text(str(Path.cwd()))),
        "script": script,
        "experiment": experiment,
        "sweep": redactor.text(notebook.config.sweep),
        "project": root,
        "host": socket.gethostname(),
        "started": now,
        "recorder_pid": os.getpid(),
        **{name: list(map(redactor.text, words)) for name, words in (("notes", notes), ("tags", tags))},
        **request.facts,
    }
    try:
        member, place = join_as_task(notebook.paths, journal, start)
        if own_rules is not None:
            journal.write(journal.paths.root / RULES_FILE, load_rules(own_rules))
        journal.write(journal.paths.start, start, durable=False)
    except BaseException:
        journal.discard()
        raise
    if request.on_created is not None:
        request.on_created(journal.run_id)
    if not request.quiet and (place is None or place.lead() == journal.run_id):
        print_line(f"{journal.run_id}  {experiment}".rstrip())
    sentences = Sentences(notebook.config.language_in_use())
    sentences.prepare("record")  # before anything can fail: a full disk or too many open files
    known = (notebook, journal, redactor, start, request.quiet, print_line, sentences)
    return Recording(*known, member=member, place=place)


def _find_experiment(
    notebook: Notebook, script: str, chosen: str, project: str, root: str, file: Path | None, *, is_missing: bool
) -> str:
    """Returns the experiment of the run: the chosen one, or that of its script and project.

    Args:
        file: The file of the script, `None` where it is none.
        is_missing: Whether there is no such script: a mistyped name creates no experiment, then the result may be "".
    """
    from labbook.store.experiment_of_script import choose_experiment, script_mode

    chosen = chosen or _started_experiment(notebook) or notebook.config.experiment
    mode = "" if is_missing else script_mode(file)
    return choose_experiment(notebook, script, chosen, project=project, root=root, mode=mode)


def _started_experiment(notebook: Notebook) -> str:
    """Returns the experiment that `labbook new` started in this folder, if its page is still there."""
    from labbook.store.started_experiment import started_experiment

    try:
        slug = started_experiment(notebook, Path.cwd())
    except OSError:  # the folder was deleted
        return ""
    return slug if slug and (notebook.paths.experiments / f"{slug}.md").is_file() else ""
