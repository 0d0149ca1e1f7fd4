"""The health checks, one module per subject, each a function with the decorator `check`.

- What was recorded: `coverage` (steps, loss, seeds, overhead), `requested_settings`.
- Before the first step: `initial`, `wiring`, `optimizer_parameters`, `loaded_states`, `layer_axes`, and what is in
  `data/`.
- The loop: `loop`, `partial_passes`, `loss_graph`, `model_mode`, `schedule`, `precision`, `static_graphs`.
- The model while it trains: `gradient`, `updates`, `frozen_layers`, `activation`, `normalisation`, `numeric`,
  `first_nonfinite`.
- What came out: `convergence`, `loss_spikes`, `validation`, `logged_metrics`, `learning_targets`.
- The machine: `performance`, `memory_use`, `distributed`.

A check that needs a new quantity first gets it from the probe; see `labbook.health` for what a check is.
"""
