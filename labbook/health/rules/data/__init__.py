"""Checks of the data that a model is trained on.

- `input_data`: scale, normalisation and columns of the inputs, classes, samples in training and validation.
- `splits`: inputs of validation that are prepared in another way.
- `image_scale`: images and labels that are scaled twice.
- `labels`: range and balance of the labels, and what the loss makes of them.
- `padding`: padding, attention masks and positions of sequences; `sequence_targets`: what a token model predicts.
- `batch_order`: shuffling, repeated batches, states that go on to other samples.
"""
