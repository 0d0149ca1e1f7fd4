"""Rules about losses: their arguments, their formula, their sign, their gradient, their range.

- `functions`: arguments of the losses of the framework, and losses that do not reach the model.
- `formulas`: a wrong sign or order in a loss that the program writes itself; `divergences`: Kullback-Leibler.
- `label_weights`: mixed, smoothed, weighted and padded labels; `embeddings`: distances and codes.
- `minimised_terms`: signs of the terms of a loss, by data flow: of critics, of normalising flows.
- `gradient_paths`: samples without gradient, twin networks without stop-gradient.
- `numeric_range`: functions that are infinite at a value which their argument can reach.
- `generated_noise`: noise of latent codes, diffusions and generators.
"""
