"""Rules about the loop of a training and the program around it: what is called, when, and on which objects.

- `steps`: backward, step and zero_grad that are missing or in the wrong order, schedules stepped at the wrong place.
- `order`: a step after the loop over batches, a clip after the step, gradients of another model.
- `schedules`: the metric and the length of a schedule, the direction of the best epoch, best weights never used.
- `averaged_weights`: averages of weights (EMA); `modes_and_devices`: train and eval mode, devices.
- `shared_storage`: in-place changes, aliased best weights, stale optimizers; `script_options`: unused options.
"""
