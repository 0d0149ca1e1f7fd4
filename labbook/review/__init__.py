"""Reads training code without running it, and reports lines that are likely to be wrong.

Start with `reviewer.review_files`: it parses the files, runs every rule over them and returns `violation.Violation`s in
order. Nothing is imported or executed; a rule stays silent where it cannot follow a name.

- `source_file` is one parsed file; `code_index` joins all files: classes, functions, calls, and what a name refers to.
- `gradient_flow` follows backward, step and zero_grad through a loop, `output_activation` the activation behind an
  expression, `eval_loops` the loops that evaluate, `partial_device_move` batches of which a part is moved.
- `rules/` holds the rules, one module a subject.

To add a rule, write one function in the right module of `rules/`, add its row to that module's `RULES`, and add a
faulty and a correct snippet to `tests/data/review/`. A rule names the id of a symptom page; title, cause and advice
stand on that page. What is seen while a program runs is judged in `health/`.
"""
