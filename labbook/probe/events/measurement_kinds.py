"""Kinds of events that hold measurements of a training: its model, batches, losses, gradients, loops and memory.

The rest, and what holds for all kinds, is in `protocol`.
"""

MODEL = "model"
"""A model, at its first training forward; once more when its parameters change (a new head, another dtype). `root`:
class name. `variable`: what the program calls it, "" if unknown. `model`: 0, 1, ... in this process. Names are those of
the root module, "" for itself.
- `modules` (<= 400, in the order of the tree): `order`: place in the first forward, null when it was not called.
  `parameters`, `trainable`: elements of its own, without children. `options`: scalars only. `input`, `output`: at most
  4 tensors each; [] when not called. `view_of`: shape of an argument of the model, or of another module's output,
  the memory of which it was given as if the axes were in another order. `steps_read`, of recurrent layers:
  which time steps of its output other modules were given, -1 for anything else of it.
- `parameters` (<= 800, in the order of the tree): `module`: `i` of its module. `same`: [model, i] of a model with the
  same parameter that was described before; without one it is left out. `init`: null for a tensor without elements;
  `zero`: share; `bad`: values not finite; `rows_equal`: at least 2 rows along axis 0 for torch and conv weights, the
  output axis for paddle's Linear, all bitwise equal; false for a tensor of one axis; `writes`: name of an initialiser
  -> how often it was called on this tensor before the first forward.
- `feeds` (<= 400): [[i, j], ...]: the tensor that module i returned is the very object that module j received, not
  written to in between; a dropout also counts as the module in front of it.
- `shared`: [[name, ...]] names of one tensor. `repeated`: [name, module, times] of containers that hold one module
  several times. `left_out`: what did not fit. `parts`, `part_of`: models known by then that are modules of this one,
  and the other way round; `holder`: class of the largest of the latter.
- `spectral_eval_first`: names of old-style spectral_norm modules that ran in eval mode before any training forward."""

TENSORS = "tensors"
"""Tensors at a dense step. `opt`: index of the optimizer that stepped. `param_print`: 16 hex digits over a strided
sample of all parameters after the step; distributed runs only.
- `params`: `i` of MODEL; `w`: 2-norm after the step; `g`: 2-norm of the gradient before the step and before clipping
  where that is known, null: no gradient; `g_zero`: share of zeros; `ratio`: norm of the update /
  norm of the weight before it, both over the same strided sample; `bad`, `g_bad`: values not finite.
- `modules`, called in the forward of this step: `zero`: share; `nan`: NaN among the `bad` ones; `in_bad`: values not
  finite in its inputs; `sat`: share of |input| > 5, tanh and sigmoid only; `across`, over the first output: v / (v +
  m), v the variance over the first axis averaged over units, m the mean square of the units' means; 0 when both are 0;
  null for fewer than 2 samples: near 0 says that all samples get the same output; `alike`, of the model itself:
  whether all samples of its inputs are equal, null without a batch; `dead` (ReLU family): share of
  units, channels in images, that were 0 for all of the last `dead_n` samples, collected over dense steps up to 2048;
  `carried` (recurrent layers): it began with the state in which its call in the look before ended; `ids` (lookup
  tables): the smallest, the largest and the number of those that it was given; `given`, of the module that returns
  first: values of its input; `row_var` (normalisations by their name that are not the framework's): the smallest
  variance over the last axis of its input of 2 or 3 axes; `cast`: dtype of the autocast region it ran in, null
  outside; `bn`, batch norms in training mode: `n`: values for each channel, `ratio`: median over channels of running
  variance / variance in the batch.
- `functions` (<= 64): watched functions called by the program itself: relu, leaky_relu, gelu, elu, sigmoid, tanh,
  softmax, log_softmax, dropout; "attention" (torch), the fused one: `shape`: queries, keys, `masked`: causal or with a
  mask for its scores, `hides`: or one over keys; "attention_mask" (paddle), "pooling": a sum over time
  of features times a mask; all `padding_only`: of a mask over keys or time: positions of one token are all that it
  leaves, null without tokens of its shape, and `flags`: what is added to the scores is zeros and ones; "noise":
  `shape` of normal random numbers; and "view": a new `shape` that takes heads for time, of one that was `viewed`;
  `line`: "file.py:12", user frame; for softmax `dim` (a number >= 0) and `size` (length of that axis), over the last
  of 3 or 4 axes, and for attention (torch), `padding_only`, `hidden`: share of the weights under 1e-20, `ahead`: how
  many later tokens each query sees, -1: nor its own, null unless the same number for all, `even`: whether each query
  gives all keys that it sees the same weight, and `unordered`: whether equal tokens have equal weights or fused keys
  wherever they are, `placed` (torch): how far such keys lie apart, as a share of those of
  different tokens; and in paddle, where those between model and loss are looked at, too,
  `of_output`: it was given the very tensor that the model returned."""

BATCH = "batch"
"""A batch as it reached the outermost model (or came out of a loader). `phase`: "train" or "eval". `loader`: index,
null when it came from no loader. `samples`: first axis of the first leaf. `print`: 16 hex digits of the first leaf: a
strided sample and the shape. At dense steps also:
- `leaves` (<= 16): `path`: "0", "1", "pixel_values"; `role`: "input" (reached a model), "label" (reached a loss
  function as its target), else "other"; `zero`: share; `integer`: of its dtype; `channels` (<= 16): [[mean, std], ...]
  over axis 1 of 4-d leaves; `lags`: of colour images:
  mean differences of values 1, 2 and 3 columns apart; `parts`: [[mean, std], ...] of the four quarters of axis 1 of
  3-d floats; `tokens`: of 2-d integers without padding: `top`: [id, share], `ids` different ones of `count`, `pad`: id,
  `inside`: of each in `top` the share between two others;
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
"""A loss function: at its first call from a place in the code (`call`: its number), at dense steps and at exit
(numbers since the start of the run; the last one wins). `fn`: "cross_entropy", "nll_loss", "binary_cross_entropy",
"bce_with_logits", "mse_loss", "l1_loss", "smooth_l1", "huber", "kl_div", "ctc", "hinge_embedding", "margin",
"triplet", "gaussian_nll", "poisson_nll", ...
`line`: "train.py:41", user frame. `training`: with gradients; calls without gradients are a separate record. `step`:
of the first call. `input`, `target`: over observed calls, `std` about their mean; `zero`: share. `classes`: length of
the class axis; null where there is none. `items`: targets that the first value is summed or averaged over. `weight`:
class weights or pos_weight given. `class_weights`: the weight of each of at most 32 classes, null where none is given.
`soft`: targets are probabilities. `ignored`: share of targets that equal ignore_index.
`ignore_index`: that label, null where no target was it. `smoothing`: label smoothing, null for none. `all_ignored`:
calls with nothing but ignored targets.
`not_probabilities`: observed calls in which an entropy without a softmax or sigmoid of its own (`use_softmax=False` in
PaddlePaddle, `from_logits=False` in Keras) got values that are none. `outside`: targets outside
[0, K) that are not ignored; for binary losses targets outside [0, 1].
`observed`: calls whose values were looked at. Shares of them: `prob_rows`: input >= 0 and sums to 1 within 1e-4 along
the class axis (binary losses: while the targets do not); `logprob_rows`: likewise of exp(input); `prob_columns` (2-d
input, at least 2 rows): it, or its exp, sums to 1 along axis 0 but not along the class axis; `unit_range`: input in
[0, 1]. `broadcast`: calls in which input and target differ in shape so that the result is larger than each.
`value_first`, `value_last`, `value_min`: of the result; its mean where reduction is "none". `negative`: observed calls
with a result below 0. `target_trained`: those whose target has a gradient, too. `near`, `far`, `margin`: of the last
observed triplets, mean distances from the positives and the negatives."""

LOADED = "loaded"
"""A state was loaded into a model or an optimizer. `what`: "model", "optimizer". `step`: optimizer steps so far.
`keys`: in the target. `mismatched`: shape or dtype; lists of <= 20 names. `elements`: share of the target's elements
that were loaded. `alias`: the state's tensors are the target's own memory, so that loading changes nothing. `trained`:
an optimizer has parameters of the model. `line`: user frame. At most 20 in a process."""

GRAPH = "graph"
"""The autograd graph, at the first backward, and once more at the 20th when something is missing. `backward`: number
of the call. `reachable`: parameters. `unreachable` (<= 100): names of trainable parameters of models whose forward was
part of this step, that the roots do not reach. `held`: trainable parameters of optimizers. `foreign` (<= 20): leaves
that are in no module and in no optimizer; `parameter`: it is a Parameter object. `cut`: where a tensor with a graph
lost it in the forward of this step; `op`: "detach", "data", "numpy", "item", "no_grad", "argmax", "stop_gradient",
"to_tensor". `blown`: where the loss sets a column of outputs against a row of targets by hand; `shape`: of the result;
`of`: of the outputs; `sure`: what the graph keeps shows it; `line`: of `backward`. `constant`: what was added to the
loss in 3 steps without having a gradient, and changed; `number`: a Python number. `penalised`: leaves that the first
losses reach by plain arithmetic alone. `ratios`: looks in the first 20 backwards at the ratio of a clipped policy
loss; `ratios_one`: it was exactly 1 for all samples; `inverted`: line of a `backward` where that ratio is exp(old -
new). `advantage`: line of a `backward` where log-probabilities are multiplied by returns minus values that have a
gradient.
`operations` (<= 400), in the first event only, else null: `[name, indices of what it takes from, parameter]`,
nearest to the loss first; a parameter has "" as its name, and an operation null as its parameter. `more`: there are
more operations."""

LOOP = "loop"
"""Running totals of the training loop; written at steps 1, 2, 4, 8, ... and at exit; the last one wins. Tables are
keyed by the number of the optimizer as text; those that would be empty are left out; lists of names <= 100.
- `optimizers`: constructed so far. `backwards`: `backward` and `autograd.grad`. `forwards`: of outermost models;
  `raised`: those in training mode that ended in an exception (torch).
  `of_others`: steps with forwards of models that are not, or no longer, trained: teachers.
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
  `outside_models`: all of them are in models in evaluation mode, of which no optimizer holds anything;
  `models_left_out`: classes of the models with some of them, of which no optimizer holds anything.
- `stale`: parameters held by it, in no model seen in a forward, that never had a gradient.
- `backward_in_eval`: backwards whose model, trained by an optimizer, was in eval mode / in train mode; `stochastic`:
  it holds Dropout with p > 0 or batch norm.
- `scheduler`: `before_optimizer`: its steps before the first one of the optimizer, without the one it takes when made.
- `rng`: `same`: step boundaries with the same state of the framework's CPU generator as the one before; `seeded`: seed
  calls since the first step, of those after which a number was drawn; `line`: user frame of the last.
- `idle`: optimizers that never stepped, and how many of their parameters got a gradient and are in no other one.
- `accumulation`: {backwards for a step: steps} (<= 20). `clip`: `empty`: calls on a norm of 0; `scaled`: calls while
  gradients carried the factor of a scaler; `changed`: calls with another limit than the one before. `clipped_norms`:
  of an optimizer, those measured `before` clipping, and `after` calls on only some of its gradients, or others, too.
  `toggled`: names whose requires_grad changed after the first step.
  `idle_flags`: `requires_grad` or `stop_gradient` set on a module, of which no parameter below has that value.
  `wrapper`: a class for data parallelism around a model, called or not. `collectives`: calls that the program makes
  itself, over all ranks; `first`: [call, name of the parameter whose gradient it is given, else the elements] of the
  first step; `of_gradients`: steps looked at in which one was given a gradient. `copies` (<= 4, of the trained
  model): `calls`: without gradients; `steps`: before which it was called so; `last`: of them; `changed`: its
  parameters, ever; `stale_norms`: calls with its first running mean beside a model with another one (paddle: steps
  looked at). `recompiles`: of the function compiled most. `out_of_bounds` (paddle).
  `cast_ignored`: of autocast on a CPU, paddle. `held_twice`: parameters that a second optimizer holds. `frozen`:
  elements with trainable false. `elements`: all. `teachers` (<= 4): with dropout or batch norm, called without
  gradients in training mode beside the trained model; `steps`: in which; `fixed`: between two looks at its
  parameters that found them unchanged. `evaluated_weights`: of models called without gradients, a row for each mode;
  `copy`: of a trained one; `steps`: before which; `rows` (<= 16): [step, share of the way of the trained weights since
  the first step that these went, cosine between their way and the sum of all ways of the trained weights]. Static
  graphs: `restarts`: runs of the program that initializes the parameters
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
phase}. `accuracy`: share of CE targets that are the largest input; `renumbered` (<= 32 classes): that share if each
predicted class is the class that it meets most, 0 if two would be one or none changes. `compared` (<= 8, tensors in
host memory): a row for each pass over a loader (else `loader` null), of the first outputs of its batches and their
labels: `n`: labels, `right`: of classes, `values`: {metric: {variant: value}}; "all" is the usual one, "last" that of
the last batch, "mean" over the batches, "half" of logits over 0.5, "zero" of probabilities over 0, "ignored" with the
labels that the loss ignores, "crossed" of each output with each label. The first 200 and then ever fewer; `phases`
counts them all, `short` those with fewer than 3 batches, `whole` those in eval mode on batches of more
than a quarter of the samples that the model is trained on. `positions` (torch): [model, module, offset] of tokens that
follow a prompt one by one: how far the id that a table of positions got is from that of the token before plus 1.
`looks` (<= 6): the first input of the batches 1, 2, 4 ... of the first phases, as in `leaves`; `inputs`: the first of
them that has floats. `caches` (torch, <= 16): joins of a cache with such a token: `line`, and how often what the token
before left was
`kept`, `moved` (the same in another order), `lost` (without the last token) or became `other`."""

LOADER = "loader"
"""First iteration of a DataLoader. `sampler`, `dataset`: classes. `length`: samples; `share`: those of each of
`ranks` processes, where a sampler divides them. `line`: user frame of the
iteration. `drawn_alike` (torch): all workers are seeded with one number, and the dataset draws random numbers, as its
code tells. `generator`: name of the field in which the dataset keeps a random generator of numpy or Python that it
draws samples from, where there are several workers. `alike`: living loaders of other data with equal settings."""

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
