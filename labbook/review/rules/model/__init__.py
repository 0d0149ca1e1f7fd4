"""Rules about classes of models: their layers, their forward and what they return.

- `classes`: layers that are not registered, not used or used wrongly, missing activations, axes of a softmax.
- `forward_values`: values and layers inside a forward: never used, joined with themselves, made anew at each call.
- `attention_scores`: scale, mask and axis of an attention that the program computes itself; `positions`: of tokens.
- `recurrent_states`: the state of recurrent layers; `initial_weights`: weights that are initialised again.
- `outputs`: arguments, axis of the classes and activation of what a model returns.

Rules about functions that compare outputs with targets belong to `loss/`.
"""
