"""The rules of `labbook review`, one module per subject.

A rule is a function with the decorator `rule`. It yields hits: the node of the syntax tree and the values of its
sentence. Precision comes before recall: a rule that cannot resolve a name in the reviewed files yields nothing.

- `training_loop`: backward, step and zero_grad that are missing or in the wrong order.
- `loss_functions`: arguments of losses, and losses that do not reach the model.
- `numeric_range`: functions that are infinite at a value which their argument can reach.
- `attention_scores`: scale and mask of an attention that the program computes itself.
- `gradient_paths`: samples without gradient, twin networks without stop-gradient; the divisor of a metric.
- `paired_data`: an image and its mask or boxes, a loss and its mask, a target and the end of an episode.
- `policy_gradients`: the sign of a policy gradient, exploration, the target network.
- `loss_formulas`: a wrong sign or order in a loss that the program writes itself.
- `metric_values`: the scale, the divisor and the samples of a metric.
- `loop_order`: a step after the loop over batches, a clip after the step; the weights of a sampler.
- `averaged_weights`: averages of weights (EMA).
- `model_classes`: layers that are not registered, not used or used wrongly.
- `modes_and_devices`: train and eval mode, gradients in evaluation, devices.
- `shared_storage`: in-place changes, aliased best weights, stale optimizers.
- `data_pipeline`, `image_values`: shuffling, splits, scaling and normalisation; `script_options`: unused options.

Code for several rules (data flow, names, classes) belongs to `review/`.
"""
