"""Rules about reinforcement learning: what an agent learns from its episodes.

- `policy_gradients`: the sign of a policy gradient, its actions, advantages and probabilities; `returns`: their order.
- `q_learning`: target networks that are never updated, the value that is corrected, the direction of exploration.
- `terminal_states`: the end of an episode, behind which no value counts.

A loss of such a program may rise rightly: what is known of its curves belongs to `health/`. Signs of losses in
general are followed in `loss/minimised_terms`, which `policy_gradients` calls.
"""
