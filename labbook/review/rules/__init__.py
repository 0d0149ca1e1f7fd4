"""The rules of `labbook review`, one module per subject.

A rule is a function with the decorator `error`, `warning` or `note`. It yields hits: the node of the syntax tree and
the values of its sentence. Precision comes before recall: a rule that cannot resolve a name yields nothing.

- `training_loop`: backward, step and zero_grad that are missing or in the wrong order.
- `loss_functions`: arguments of losses, and losses that do not reach the model.
- `numeric_range`: functions that are infinite at a value which their argument can reach.
- `attention_scores`: scale, mask and axis of an attention that the program computes itself; positions.
- `gradient_paths`: samples without gradient, twin networks without stop-gradient; the divisor of a metric.
- `paired_data`: an image and its mask or boxes, a loss and its mask, a target and the end of an episode.
- `loss_formulas`: a wrong sign or order in a loss that the program writes itself.
- `metric_values`: the scale, the divisor and the samples of a metric.
- `running_totals`: totals over batches that are overwritten or divided by another length.
- `loop_order`: a step after the loop over batches, a clip after the step; the weights of a sampler.
- `averaged_weights`: averages of weights (EMA).
- `minimised_terms`: signs of the terms of losses, by data flow: of critics, of normalising flows.
- `policy_gradients`, `q_learning`: reinforcement learning: returns, probabilities, target networks, exploration.
- `model_classes`: layers that are not registered, not used or used wrongly.
- `forward_values`: values and layers inside a forward; `recurrent_states`: the state of recurrent layers.
- `generated_noise`: noise of latent codes, diffusions and generators.
- `model_outputs`: axes, activation and dropout of what a model returns.
- `modes_and_devices`: train and eval mode, gradients in evaluation, devices.
- `shared_storage`: in-place changes, aliased best weights, stale optimizers.
- `stored_arrays`: arrays that are stored without a copy.
- `data_pipeline`, `image_values`: shuffling, splits, scaling and normalisation; `script_options`: unused options.

Code for several rules (data flow, names, classes) belongs to `review/`.
"""
