"""Names shared by the probe, which writes events, and the journal, which reads them.

This file belongs to the probe: standard library only, Python 3.8 syntax. The rest of labbook may import it.

A process of the run writes one append-only file `events/<host>-<pid>-<start ticks>.jsonl`. Each line is one event: a
JSON object with `v` (schema number), `n` (sequence in this file, from 0), `t` (Unix time, s), `k` (kind) and the
fields of its kind. A reader skips kinds and fields that it does not know and tolerates a torn last line. Strings are
redacted by the probe before they are written; numbers that are not finite are written as the strings "nan", "inf"
and "-inf", so that every line is strict JSON. A null says "not known".

The fields of a kind and their types are in `labbook/model/events/`; beside the name of a kind is what the types do
not say.
"""

from .measurement_kinds import (
    BATCH,
    EVALUATION,
    FLIGHT,
    GRAPH,
    LOADED,
    LOADER,
    LOOP,
    LOSS_CALL,
    MEMORY,
    MODEL,
    PRINTS,
    TENSORS,
)

SCHEMA = 1

ENV_PROBE = "LABBOOK_PROBE"
"""JSON object with the settings of the probe: `{"dir": journal folder, "run": run id, "level": "light|normal|deep",
"root": folder that holds the `probe` package, "budget": fraction of time, "state": {"when": "last|failed", "limit":
bytes} or absent}`. Absent: the probe stays silent."""

ENV_NOTEBOOK = "LABBOOK_NOTEBOOK"
"""Path of the notebook to use, when neither `--notebook` nor a `labbook.toml` above the folder says so."""

EVENTS_FOLDER = "events"

RULES_FILE = "rules.json"
"""The notebook's own redaction rules, in the journal's folder; there only if it has any."""

HELLO = "hello"
"""First line of every file. `start_ticks`: field 22 of /proc/pid/stat. `fd1`, `fd2`: what the streams point to;
`fd1_file`, `fd2_file`: inode of a regular file, place of the first byte. `role`: "python" or "fork" (a fork of the
process in `ppid`). `env`: rank variables that are set, of `RANK_VARIABLES`."""

ARGUMENTS = "arguments"
"""Parsed options. `source`: "argparse", "click", "hydra", "omegaconf", "absl", "dict", "tyro", "fire", "draccus",
"docopt", "pydantic", "jsonargparse", "gin", "papermill", "transformers", "lightning", "paddle", "skorch", "keras",
"fastai", "ultralytics", "stable_baselines3", "constants" (plain values in the main module with the names of settings,
and those that it or a running function assigns once, to a literal), or "attributes" (those of an object that trains).
`name`: variable, parser, notebook or class. `values`: JSON scalars, lists and objects; anything else in a few words.
`unchanged`: names of those that have their default value."""

CONFIG = "config"
"""A configuration file that was opened for reading. `format`: "yaml", "json", "toml", "ini". `text`: redacted, at most
64 KiB."""

FILES = "files"
"""Files opened. Of an item: `path` (absolute, resolved), `mode` ("r", "w" or "rw"), `size` (bytes, -1 unknown). A path
may be reported again: the last one wins. An item with `folder` represents `members` further files of the folder `path`,
too many to be listed. `size_before`: bytes when it was first opened, missing if it was new or emptied. `before`:
fingerprint, as `labbook.capture.fingerprints` makes it, of a file that was read and is then written. The home folder is
written `~`; see `PATHS`."""

PATHS = "~"
"""How the home folder is written in `hello` (`executable`, `prefix`, `base_prefix`, `cwd`, `sys_path`, `fd1`, `fd2`),
in the `path` of `files` and `config`, and in the `files` of `sources`: the recorder has to open them, so folders of
other people are masked only when the entry is made. In all other strings personal paths are masked already."""

SOURCES = "sources"
"""What of the user's code this process loaded, written at its end. `files`: paths of the modules, the main program
first. `packages`: names of the installed top-level modules, `imported`: those that these files import. `environment`
(object): the variables that are set and that these files name, or that begin with the name of a loaded package, without
names like those of secrets. More than one event may be written: they add up. What ranks are compared by: `allowed`
(object): the variables whose values may be recorded, `versions` (object): `__version__` of the packages, `modules`:
name, path and digest of the text of each of `files`."""

EXCEPTION = "exception"
"""An uncaught exception. `where`: "main", "thread", "child". `chain` and `frames`: innermost last. `relation` of a
link: "cause" or "context". `group`: members of a group. `user` of a frame: outside the interpreter's and site-packages'
folders. `tensors` (<= 8): what the innermost line of the user's code names. `names`: the one that is missing
(`missing`), similar ones (`near`, <= 3), all if few (`known`, <= 12). `step`: last one. `exit`: it was the end."""

CHILD_DIED = "child_died"
"""A child of `multiprocessing` was ended by a signal that this process did not send. `name`: "Process-1". `target`:
name of its function. `signal`: "SIGKILL". At most 50 in a process."""

STACKS = "stacks"
"""What all threads were doing. `reason`: "silence" (no step, batch or forward came for long, in a process that has made
steps), "moved" (after that it goes on, no threads are listed), "interrupt" (Ctrl-C ended the main thread). `silent_s`:
seconds since the last step, batch or forward. `threads` (<= 64): the main thread first; frames innermost last, at most
40. At most 30 for silences in a process. `collectives`: how many collective calls of all ranks the program has begun
(`made`), and the names of the `last` of them."""

STACKS_ENDING = ".stacks"
"""End of the name of a file beside the event file: the stacks that the interpreter itself wrote at SIGTERM, as text."""

WARNING = "warning"
"""The first time a Python warning is shown. At most 50 in a process."""

FRAMEWORK = "framework"
"""A framework was imported and attached to. `build`: cuda, cudnn, driver, debug, git. `devices`: {`kind`, `name`,
`memory_bytes`}. `attached`: what is hooked. `declined`: signal -> reason."""

STATE = "state"
"""Facts that may change; the reader merges them, the last one wins. `seeds`: what was seeded -> value, null: drawn
from without a seed; one that changed after the first step is recorded as "torch, later". `mode`: "dynamic", "static",
"compiled". `device`: where the parameters are. `parameters`, `trainable`: elements. `statistics`: those of running
statistics, which PaddlePaddle has among its parameters, not counted there. `model`: class name of the root module;
several, joined by commas. `devices` (as in FRAMEWORK) and `cudnn`: once the program has started CUDA."""

OPTIMIZER = "optimizer"
"""An optimizer took its first step. `options`: lr, momentum, weight_decay, ... A group has those options, such as
weight_decay, in which groups differ. `trains`: number of its model, in the order of first steps; optimizers of one
model share it. `root`: class of that model, "" where none is found. `tensors`: how many parameters the optimizer has.
`dropout`: the different rates of the dropout modules of that model. `parameters`, `trainable`: elements of the model;
`shared`: those of both kinds that the model of an earlier optimizer has, too; without any it is left out.
`thread`: identifier of a thread that is not the main one. `line`: line of the program that made the step."""

STEP = "step"
"""One optimizer step, or a window of `n` consecutive ones; in a static graph, a run of a program with an optimizer.
`opt`: optimizer index. `step`: number of the last step in the window, from 1. For the last step: `loss` (the value
that was passed to `backward`; list when several), `step_loss` (of several: the sum of those whose gradients were not
cleared before the step and reach the optimizer), `summed` (how many calls of `backward` those were), `parts` (name
in the program -> its loss, where these have several names, and in the first step), `lr` (one a group), `grad_norm`
(total 2-norm over all gradients, before clipping where that is known; of the step `norm_step` where that is another
one), `dt` (s since the step before), `ph` (seconds by phase, and of the probe's own work), `collective` (of the
former, seconds in collective calls that the program made itself outside of `backward` and the optimizer; not finite
where some did not wait), `calls` (number of those calls in the last step). `agg`, for `n` > 1: of each of them [min,
max, mean, count of finite values, count of others]. `backwards`: calls of `backward` in the window. `skipped`: steps
that a gradient scaler skipped; `n` is 0 where nothing but skipped steps is left to tell. `scale`: of the gradient
scaler. `local`: the norm is that of this rank's part of sharded gradients, the squares of all ranks add up.
`samples`: first axis of the batch."""

SCALARS = "scalars"
"""Numbers that the program logged. `source`: "tensorboard", "visualdl", "wandb", "mlflow", "paddle", "labbook"."""

NOTE = "note"
"""A sentence from `labbook.note()`."""

KEEP = "keep"
"""A call of `labbook.keep()`. `path`: absolute. `name`: given by the program, or "". `size`, `mtime_ns`: of the file at
the call, -1 and 0 for a folder or where there is none. `step`: optimizer steps so far."""

TRIAL = "trial"
"""One of several trainings in this process. `own`: it has an event file of its own, this one, in which it is the first
event after the hello and, when it has ended, the one before the last. `tool`: "optuna", "hydra", "labbook". `group`:
name of the study, or "". `number`: of the trial. `params`: its options; when it has ended, those known only then.
`state`: "" at the beginning, then "complete", "pruned", "failed", "interrupted"; "several": trials ran at the same
time, and this file has events of all of them. `together`: such a trial, in the file of the process; `label`: its number
in the field `trial` of the events of its thread, 0 where several are open in one thread. `values`: results.
`directions`: "minimize" or "maximize" each."""

UNOBSERVED = "unobserved"
"""Something that this process could not observe."""

PROBE_ERROR = "probe_error"
"""A guarded failure of the probe itself. Written once for each place, again at the end with the final count."""

SPAWNED = "spawned"
"""A child process was started through Python. `how`: "subprocess", "exec" or "spawn"; forks say hello themselves."""

MOMENT = "moment"
"""A condition of `--watch`, `--break` or `--stop-on` came true; the first 3 times. `framework`: null: a logged number
decided. `option`: "watch", "break", "stop-on". `values`: of the series that it looks at. `batch`: as in BATCH.
`series`, `steps`: the last 20. `line`: "train.py:12", user frame. `note`: why the debugger could not start, else ""."""

WATCHED = "watched"
"""What became of a condition, at exit. `held`: times it was looked at and held. `moments`: times it came true.
`looked`: times it was looked at with all its series known. `first`, `last`: steps in which it held. `missing`: names
of series that never had a value."""

STOPPED = "stopped"
"""The run was ended as asked. `option`: "stop-on", "max-steps". `expression`: "" for max-steps. `how`: "exit"
(`SystemExit` in the main thread), "interrupt" (as by Ctrl-C, because another thread trained), "terminate" (the program
went on after that). `status`: exit status asked for."""

PROFILE = "profile"
"""The framework's profiler ran for a few steps. `begin_step`, `end_step`: first and last profiled step. `device`:
device times were taken. `rows` (<= 20): by own time; null: not known. `operators`: how many there were. `trace`: path
in the journal, or ""."""

CHECKED = "checked"
"""A result of `labbook.checks` that the program asked for. `check`: "checklist", "overfit_one_batch", "gradcheck",
"trace". `verdict`: "ok", "warn", "fail", "note". `rows` (<= 200): lists of texts. `left_out`: further rows. `line`:
user frame."""

BYE = "bye"
"""Last line of a process that ended in an orderly way. `overhead_s`: time spent inside the probe by its own
measurement. `lost_events`: events that could not be written. `sustained`: null where fewer than 32 steps were made,
else what of `overhead_s` and `elapsed_s` came after that step and before the end; the rest is set-up, which short runs
pay, too. `exit`: the last call of `sys.exit` in the main thread: `t`, `step`, `code`, `message` and `frames`; the
program may have gone on after it."""

KINDS = (
    *(HELLO, ARGUMENTS, CONFIG, FILES, SOURCES, EXCEPTION, CHILD_DIED, STACKS, WARNING, NOTE, KEEP, TRIAL),
    *(UNOBSERVED, PROBE_ERROR, FRAMEWORK, STATE, OPTIMIZER, STEP, SCALARS, LOSS_CALL, EVALUATION, LOOP, BATCH, PRINTS),
    *(LOADER, MEMORY, MODEL, SPAWNED, TENSORS, LOADED, GRAPH, FLIGHT, MOMENT, WATCHED, STOPPED, PROFILE, CHECKED, BYE),
)
"""All kinds. Their fields and types are in `labbook.model.events`."""

LABELLED = (OPTIMIZER, SCALARS, EXCEPTION)
"""Kinds of events that have a field `trial` while the process trains several trials."""

RANK_VARIABLES = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_LOCAL_RANK"),
    *("SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    *("PMI_RANK", "PMI_SIZE", "MASTER_ADDR", "MASTER_PORT", "PADDLE_TRAINER_ENDPOINTS"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
)
"""Variables with the rank of a process, and with the job of those that a launcher of one node starts."""
