"""Masks secrets and personal paths before anything is written.

The same code runs in the recorded process and in the recorder, so that a value is masked alike in events, console
output, command lines, patches and configuration files. A masked secret reads `[REDACTED:rule]`, a home folder `~`.

Start with `redactor.py`: a `Redactor` applies the layers in order. Known values come first (`known_secrets.py`:
collected from the environment and the command line), then fixed formats (`rules.py` reads them from `rules.json`),
then values beside a name that says what they are (`named_secrets.py` in text, `line_context.py` where the name or its
section is on a line before, `structures.py` in dictionaries and command lines, `secret_names.py` judges the names),
then personal paths and URLs (`paths_and_urls.py`). `prefilter.py` finds the lines that can contain anything at all,
without a regular expression. `stream.py` does the same to text that arrives in pieces. `event_redaction.py` applies
all this to events.

A new format of a token is a row in `rules.json` with its example; a new kind of context is code in `named_secrets.py`.
Not here: which files are captured at all, and the last check before a commit (`labbook/store/commit/last_look.py`).
"""
