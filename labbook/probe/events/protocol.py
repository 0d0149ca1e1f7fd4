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
"constants" (plain values in the main module with the names of settings, and those that it or a running function
assigns once, to a literal), or "attributes" (those of an object that trains). `name`: variable, parser, notebook or
class. `values`: JSON scalars, lists and objects; anything else in a few words. `unchanged`: names of those that have
their default value."""

CONFIG = "config"
"""A configuration file that was opened for reading. `format`: "yaml", "json", "toml", "ini". `text`: redacted, at most
64 KiB."""

FILES = "files"
"""Files opened. Of an item: `path` (absolute, resolved), `mode` ("r", "w" or "rw"), `size` (bytes, -1 unknown), `opens`
(count), `via` ("open", "fd" or "map"). A path may be reported again: the last one wins. An item with `folder`
represents `members` further files of the folder `path`, too many to be listed; `opens` is the sum. `size_before`: bytes
when it was first opened, missing if it was new or emptied. `before`: fingerprint, as `labbook.capture.fingerprints`
makes it, of a file that was read and is then written. The home folder is written `~`; see `PATHS`."""

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
"compiled". `device`: where the parameters are. `parameters`, `trainable`: elements. `model`: class name of the root
module; several, joined by commas. `devices` (as in FRAMEWORK) and `cudnn`: once the program has started CUDA.
`grad_norm_every`: steps between two measurements of the gradient norm, recorded when it changes. `executions`: runs of
static graphs."""

OPTIMIZER = "optimizer"
"""An optimizer took its first step. `options`: lr, momentum, weight_decay, ... A group has those options, such as
weight_decay, in which groups differ. `trains`: number of its model, in the order of first steps; optimizers of one
model share it. `root`: class of that model, "" where none is found. `tensors`: how many parameters the optimizer has.
`dropout`: the different rates of the dropout modules of that model. `parameters`, `trainable`: elements of the model.
`thread`: identifier of a thread that is not the main one."""

STEP = "step"
"""One optimizer step, or a window of `n` consecutive ones; in a static graph, a run of a program with an optimizer.
`opt`: optimizer index. `step`: number of the last step in the window, from 1. For the last step: `loss` (the value
that was passed to `backward`; list when several), `step_loss` (of several: the sum of those whose gradients were not
cleared before the step and reach the optimizer), `summed` (how many calls of `backward` those were), `parts` (name in
the program -> its loss, where these have several names, and in the first step), `lr` (one a group), `grad_norm` (total
2-norm over all gradients, before clipping where that is known),
`dt` (s since the step before), `ph` (seconds by phase), `collective` (of them, seconds in collective calls that the
program made itself outside of `backward` and the optimizer; not finite where some did not wait), `calls` (number of
those calls in the last step). `agg`, for `n` > 1: of each of them [min, max, mean, count of
finite values, count of others]. `backwards`: calls of `backward` in the window. `skipped`: steps that a gradient scaler
skipped; `n` is 0 where nothing but skipped steps is left to tell. `scale`: of the gradient scaler. `local`: the norm is
that of this rank's part of sharded gradients, the squares of all ranks add up. `in_backward`: steps of single
parameters, made inside `backward`, that this step represents. `samples`: first axis of the batch. `mem`: allocated
bytes on the device."""

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

MODEL = "model"
"""A model, at its first training forward; once more when its parameters change (a new head, another dtype). `root`:
class name. `model`: 0, 1, ... in this process. Names are those of the root module, "" for itself.
- `modules` (<= 400, in the order of the tree): `order`: place in the first forward, null when it was not called.
  `parameters`, `trainable`: elements of its own, without children. `options`: scalars only. `input`, `output`: at most
  4 tensors each; [] when not called. `view_of`: shape of an argument of the model, or of another module's output,
  the memory of which it was given as if the axes were in another order. `steps_read`, of recurrent layers:
  which time steps of its output other modules were given, -1 for anything else of it.
- `parameters` (<= 800, in the order of the tree): `module`: `i` of its module. `init`: null for a tensor without
  elements; `zero`: share; `bad`: values not finite; `rows_equal`: at least 2 rows along axis 0 for torch and conv
  weights, the output axis for paddle's Linear, all bitwise equal; false for a tensor of one axis; `writes`: name of an
  initialiser -> how often it was called on this tensor before the first forward.
- `feeds` (<= 400): [[i, j], ...]: the tensor that module i returned is the very object that module j received.
- `shared`: [[name, ...]] names of one tensor. `repeated`: [name, module, times] of containers that hold one module
  several times. `left_out`: what did not fit.
- `spectral_eval_first`: names of old-style spectral_norm modules that ran in eval mode before any training forward."""

TENSORS = "tensors"
"""Tensors at a dense step. `opt`: index of the optimizer that stepped. `param_print`: 16 hex digits over a strided
sample of all parameters after the step; distributed runs only.
- `params`: `i` of MODEL; `w`: 2-norm after the step; `g`: 2-norm of the gradient before the step and before clipping
  where that is known, null: no gradient; `g_std`, `g_zero`: deviation and share of zeros; `ratio`: norm of the update /
  norm of the weight before it, both over the same strided sample; `bad`, `g_bad`: values not finite.
- `modules`, called in the forward of this step: `zero`: share; `nan`: NaN among the `bad` ones; `in_bad`: values not
  finite in its inputs; `sat`: share of |input| > 5, tanh and sigmoid only; `across`, over the first output: v / (v +
  m), v the variance over the first axis averaged over units, m the mean square of the units' means; 0 when both are 0;
  null for fewer than 2 samples: near 0 says that all samples get the same output; `alike`, of the model itself:
  whether all samples of its inputs are equal, null without a batch; `dead` (ReLU family): share of
  units, channels in images, that were 0 for all of the last `dead_n` samples, collected over dense steps up to 2048;
  `carried` (recurrent layers): it began with the state in which its call in the look before ended; `ids` (lookup
  tables): the smallest, the largest and the number of those that it was given; `given`, of the module that returns
  first: values of its input; `cast`: dtype of the autocast region it ran in, null outside; `bn`, batch norms in
  training mode: `n`: values for each channel, `ratio`: median over channels of running variance / variance in the
  batch.
- `functions` (<= 64): watched functions called by the program itself: relu, leaky_relu, gelu, elu, sigmoid, tanh,
  softmax, log_softmax, dropout; "attention" (torch), the fused one: `shape`: queries, keys, `masked`: causal or with a
  mask for its scores, `hides`: or one over keys; "attention_mask" (paddle); both `padding_only`: of a mask over keys:
  positions of one token are all that it leaves, null without tokens of its shape, and `flags`: what is added to the
  scores is zeros and ones; "noise": `shape` of normal random
  numbers; and "view": a new `shape` that takes heads for time, of one that was `viewed`; `line`: "file.py:12", user
  frame; for softmax `dim` (a number >= 0) and `size` (length of that axis), over the last of 3 or 4 axes, and for
  attention (torch), `padding_only`, `hidden`: share of the weights under 1e-20, `ahead`: how many later tokens each
  query sees, -1: nor its own, null unless the same number for all, and `even`: whether each query gives all keys that
  it sees the same weight; and in paddle, where those between model and loss are looked at, too, `of_output`: it was
  given the very tensor that the model returned."""

BATCH = "batch"
"""A batch as it reached the outermost model (or came out of a loader). `phase`: "train" or "eval". `loader`: index,
null when it came from no loader. `samples`: first axis of the first leaf. `print`: 16 hex digits of the first leaf: a
strided sample and the shape. At dense steps also:
- `leaves` (<= 16): `path`: "0", "1", "pixel_values"; `role`: "input" (reached a model), "label" (reached a loss
  function as its target), else "other"; `zero`: share; `integer`: of its dtype; `channels` (<= 16): [[mean, std], ...]
  over axis 1 of 4-d leaves; `lags`: of colour images:
  mean differences of values 1, 2 and 3 columns apart;
  `constant`: 2-d float leaves of at most 4096 columns: how many columns had one value in
  all batches so far; `constant_at` (<= 8): the numbers of the first of them, from 0; `constant_n`: samples in these
  batches; `telling` (<= 8): columns of a 2-d float input that alone determined the target in all batches so far, by one
  value a class or a line through all; `telling_n`: samples in these; of a 3-d input, those of its last step that are
  the target; `marked` (<= 8): columns of a 2-d float input in which one value is repeated and far from all others;
  `ahead`: by how many tokens an integer target is ahead of this 2-d integer input: 0 the same, 1 the next
  token, null neither; `mixed`: each target of the same form is a weighted sum of several channels of the inputs, with
  other weights for each sample.
- `labels`: integer labels of one axis, or one label a sample: `histogram` {class: count in this batch} (<= 200
  classes).
- `dims_equal`: all leaves with an axis have the same first dimension."""

PRINTS = "prints"
"""What batches were seen, in order; an event for each (loader, phase, epoch), written when the epoch ends and at exit.
`loader`: index; null: inputs of the model that came from no loader. `epoch`: times that iteration began. `batches`:
delivered in this epoch. `prints`: first 2000 of each of the first 4 epochs, later epochs []. `repeated`: batches with
the print of the one before it. `labels`: as many as `prints`; integer labels only, else []: [entropy in nats, most
frequent class]. `rows`: first 16 samples of each batch, at most 1000: [hex] or [hex, label]. `histogram`: {class:
count} over the whole epoch, <= 200 classes, null without labels."""

LOSS_CALL = "loss_call"
"""A loss function: at its first call from a line, at dense steps and at exit (numbers since the start of the run; the
last one wins). `fn`: "cross_entropy", "nll_loss", "binary_cross_entropy", "bce_with_logits", "mse_loss", "l1_loss",
"smooth_l1", "huber", "kl_div", "ctc", "hinge_embedding", "margin", "triplet", "gaussian_nll", "poisson_nll", ...
`line`: "train.py:41", user frame. `training`: with gradients; calls without gradients are a separate record. `step`:
of the first call. `input`, `target`: over observed calls; `zero`: share. `classes`: length of the class axis; null
where there is none. `items`: targets that the first value is summed or averaged over. `weight`: class weights or
pos_weight given. `soft`: targets are probabilities. `ignored`: share of targets that equal ignore_index.
`ignore_index`: that label, null where no target was it. `all_ignored`: calls with nothing but ignored targets.
`not_probabilities`: observed calls in which a cross entropy without a softmax of its own (`use_softmax=False`) got
rows that are none. `outside`: targets outside [0, K) that are not ignored; for binary losses targets outside [0, 1].
`observed`: calls whose values were looked at. Shares of them: `prob_rows`: input >= 0 and sums to 1 within 1e-4 along
the class axis (binary losses: while the targets do not); `logprob_rows`: likewise of exp(input); `prob_columns` (2-d
input, at least 2 rows): it, or its exp, sums to 1 along axis 0 but not along the class axis; `unit_range`: input in
[0, 1]. `broadcast`: calls in which input and target differ in shape so that the result is larger than each.
`value_first`, `value_last`, `value_min`: of the result; its mean where reduction is "none". `negative`: observed calls
with a result below 0."""

LOADED = "loaded"
"""A state was loaded into a model or an optimizer. `what`: "model", "optimizer". `step`: optimizer steps so far.
`keys`: in the target. `mismatched`: shape or dtype; lists of <= 20 names. `elements`: share of the target's elements
that were loaded. `alias`: the state's tensors are the target's own memory, so that loading changes nothing. `trained`:
an optimizer has parameters of the model. `line`: user frame. At most 20 in a process."""

GRAPH = "graph"
"""The autograd graph, at the first backward, and once more at the 20th when something is missing. `backward`: number of
the call. `reachable`: parameters. `unreachable` (<= 100): names of trainable parameters of models whose forward was
part of this step, that the roots do not reach. `held`: trainable parameters of optimizers. `foreign` (<= 20): leaves
that are in no module and in no optimizer; `parameter`: it is a Parameter object; `again`: reached in the look before,
too. `cut`: where a tensor with a graph lost it in the forward of this step; `op`: "detach", "data", "numpy", "item",
"no_grad", "argmax", "stop_gradient", "to_tensor". `blown`: where the loss sets a column of outputs against a row of
targets by hand; `shape`: of the result; `of`: of the outputs; `sure`: what the graph keeps shows it; `line`: of
`backward`. `constant`: what was added to the loss in 3 steps without having a gradient, and changed; `number`: a Python
number. `penalised`: leaves that the first losses reach by plain arithmetic alone. `ratios`: looks in the first 20
backwards at the ratio of a clipped policy loss; `ratios_one`: it was exactly 1 for all samples; `inverted`: line of a
`backward` where that ratio is exp(old - new). `advantage`: line of a `backward` where log-probabilities are multiplied
by returns minus values that have a gradient.
`operations` (<= 400), in the first event only, else null: `[name, indices of what it takes from, parameter]`,
nearest to the loss first; a parameter has "" as its name, and an operation null as its parameter. `more`: there are
more operations."""

LOOP = "loop"
"""Running totals of the training loop; written at steps 1, 2, 4, 8, ... and at exit; the last one wins. Tables are
keyed by the number of the optimizer as text; those that would be empty are left out; lists of names <= 100.
- `optimizers`: constructed so far. `backwards`: `backward` and `autograd.grad`. `forwards`: of outermost models;
  `raised`: those in training mode that ended in an exception (torch).
  `of_others`: those without gradients that are of models which are not, or no longer, trained: teachers.
  `small`: those with gradients of at most a quarter of the samples that the model was last trained on, `compared`:
  the steps in which they were counted: a policy that acts. `chained`: of the `looked` ones with gradients, those with
  inputs that were all computed with gradients, as by a solver. `forwards_lonely`: training
  forwards with gradients that no backward followed. `losses_lonely`: loss function calls with gradients that no
  backward followed.
- `cleared`: `streak`: longest run. Judged when that optimizer steps: not cleared when some gradient it holds was not
  zero before *every* backward since its last step (in accumulation the first one finds zeros; in a GAN the backward of
  the other network may find old gradients, its own does not). The first step is not judged.
- `steps_without_backward`: no backward since its last step and none of its gradients was written since.
- `steps_without_gradient`: a backward happened, yet all its gradients are None / None or 0; `checked`: steps looked at,
  fewer than all where steps are short.
- `unchanged`: a gradient not 0, rate > 0, step not skipped, and every element of the sample (of all its tensors with
  gradient) bitwise as before.
- `never_grad`: names of parameters that an optimizer holds, of models that ran, that require gradients and never had
  one after 20 backwards (paddle: after 3); `never_called`: those of them whose module was never called; `trainable_n`:
  trainable parameter tensors; `judged`: backwards when these were looked at.
- `outside`: names of trainable parameters that got a gradient and that no optimizer seen so far holds;
  `outside_models`: all of them are in models in evaluation mode, of which no optimizer holds anything.
- `stale`: parameters held by it, in no model seen in a forward, that never had a gradient.
- `backward_in_eval`: backwards whose model, trained by an optimizer, was in eval mode / in train mode; `stochastic`:
  it holds Dropout with p > 0 or batch norm. `nograd_in_train`: forwards.
- `scheduler`: `before_optimizer`: its steps before the first one of the optimizer, without the one it takes when made.
- `rng`: `same`: step boundaries with the same state of the framework's CPU generator as the one before; `seeded`: seed
  calls since the first step, of those after which a number was drawn; `line`: user frame of the last.
- `idle`: optimizers that never stepped, and how many of their parameters got a gradient and are in no other one.
- `accumulation`: {backwards for a step: steps} (<= 20). `clip`: `empty`: calls on a norm of 0; `scaled`: calls while
  gradients carried the factor of a scaler. `toggled`: names whose requires_grad changed after the first step.
  `idle_flags`: `requires_grad` or `stop_gradient` set on a module, of which no parameter below has that value.
  `wrapper`: a class for data parallelism around a model, called or not. `collectives`: calls that the program makes
  itself, over all ranks; `first`: [call, name of the parameter whose gradient it is given, else the elements] of the
  first step; `of_gradients`: steps looked at in which one was given a gradient. `copies` (<= 4, of the trained
  model): `calls`: without gradients; `steps`: before which it was called so; `last`: of them; `changed`: its
  parameters, ever. `recompiles`: of the function compiled most. `syncs`: host syncs a step. `out_of_bounds` (paddle).
  `cast_ignored`: of autocast on a CPU, paddle. `held_twice`: parameters that a second optimizer holds. `frozen`:
  elements with trainable false. `elements`: all. `teachers` (<= 4): with dropout or batch norm, called without
  gradients in training mode beside the trained model; `steps`: in which; `fixed`: between two looks at its
  parameters that found them unchanged. Static graphs: `restarts`: runs of the program that initializes the parameters
  after steps; `rising`: those in which a variable of the program that is named as an epoch had grown.
  `evaluation_updates`: runs of a program with an optimizer in a `function` named as an evaluation, or of a copy of one
  (`function` is ""), beside runs that train; `held_out`: it is the training program, fed with data of their own and
  without its loss."""

EVALUATION = "evaluation"
"""A validation phase: forwards of an outermost model without gradients or in eval mode, with no optimizer step and no
training forward between them; a single forward only when a loss was computed in it or no other came in the 5 steps
before; fewer than 3 forwards of models that are not trained only in the latter case; written when it ends, at exit
where it was still under way. `of_others`: batches of models not trained. `training`: mode flag. `grad`: enabled,
`asked`: and asked for by the program, as for an attack.
`stochastic`: Dropout with p > 0 or batch norm inside. `dropout_active`: calls of functional dropout with training true,
p > 0, under a module in eval mode. `repeated`: batches with the print of the one before. `loss`: {fn: mean over the
phase}. `accuracy`: share of CE targets that are the largest input. The first 200 and then ever fewer; `phases` counts
them all, `short` those with fewer than 3 batches, `whole` those in eval mode on batches of more than a quarter of the
samples that the model is trained on. `positions` (torch): [model, module, offset] of tokens that follow a prompt one by
one: how far the id that a table of positions got is from that of the token before plus 1."""

LOADER = "loader"
"""First iteration of a DataLoader. `sampler`, `dataset`: classes. `length`: samples. `line`: user frame of the
iteration. `drawn_alike` (torch): all workers are seeded with one number, and the dataset draws random numbers, as its
code tells. `generator`: name of the field in which the dataset keeps a random generator of numpy or Python that it
draws samples from, where there are several workers."""

MEMORY = "memory"
"""Memory, at dense steps and at least every 10 s, in bytes. `workers_rss`: of the workers of data loaders, shared pages
in parts. `graphs`: how many graphs of past backward calls are still alive, null: not known; `graphs_of`: backward calls
looked at."""

FLIGHT = "flight"
"""The first value that was not finite, once. `trigger`: "loss", "gradient", "parameter" or "end", with which it left.
`finding`: "bad batch", "bad parameters", "forward", "loss expression", "expression" (without a module), "backward",
"not reproduced", "not replayed"; `reason`: why not. `value`: "nan", "inf" or "-inf", that of the trigger. `batch`: as
in BATCH, and `indices` (<= 256). `parameters` (<= 20): names with bad values. `recent` (<= 20): the steps before.

For an expression `op` is its chain of operations, the last one first; `made` is the first operation that is
shown to have made the value, or null (always null in PaddlePaddle, whose graph keeps no values): `nan`, `inf`, `of`:
counts in its result; `low`, `high`: of its argument; `zeros`: of a divisor; `then`: what made NaN of its infinities;
`given`: an argument without a gradient was not finite. `may` (<= 6): those that may have made it where none is shown.
The place of the event is that of the one operation, else that of the `backward`."""

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
