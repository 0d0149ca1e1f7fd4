"""Rules about data before it reaches the model: splits, order, scale, labels.

- `leaks`: validation data that training has seen: nodes of graphs, folds, windows that overlap.
- `fitted_statistics`: scalers that are fitted on all rows, or again on held-out rows.
- `pipeline`: shuffling of loaders and arrays, subsets of the wrong part, iterators that end, `set_epoch`.
- `pairs`: what belongs together: an image and its mask or boxes, inputs and labels in one order, a loss and its mask.
- `image_values`: scaling and normalisation of pixels, twice or not at all.
- `samplers`: weights of a sampler; `stored_arrays`: arrays that change after they were stored.

Rules about what is done with predictions and metrics belong to `evaluation/`.
"""
