"""Reads training code without running it, and reports lines that are likely to be wrong.

Start with `reviewer.review_files`: it parses the files, runs every rule and returns sorted `violation.Violation`s.
Nothing is imported or executed; a rule reports nothing where it cannot resolve a name.

- `source_file` is one parsed file; `code_index` covers all files: classes, functions, calls, values of names.
- `names` and `call_syntax` read single nodes of the syntax tree: what they are called, what they call and assign.
- `gradient_flow` follows backward, step and zero_grad through a loop; `output_activation` finds the activation that
  produced a value, `eval_loops` evaluation loops, `partial_device_move` batches that are moved only in part.
- `watched_values` finds what a program compares with its best, `value_flow` follows a value to where it is printed or
  logged, `printed_values` reads the texts that print it.
- `unread_options` finds options of the command line that no line reads; the check of a configuration calls it.
- `loaders` finds the loader of a loop and what programs call inputs and labels.
- `rules/` contains the rules, a folder per subject.

To add a rule, write one function in the right module of `rules/`, with the decorator of its severity, and add a faulty
and a correct snippet to `tests/data/review/`. A rule names the id of a symptom page, which has title, cause and advice.
Checks of running programs belong to `health/`.
"""
