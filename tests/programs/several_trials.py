"""Several trainings in one process: an Optuna study, trials by hand, and one more training behind them."""

import sys

import torch

import labbook

STEPS = 12


def train(rate, report=None, steps=STEPS):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    inputs = torch.randn(32, 4)
    targets = inputs.sum(1, keepdim=True)
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if report is not None:
            report(loss.item(), step)
    print("val_loss", loss.item())
    return loss.item()


def objective(trial):
    import optuna

    rate = trial.suggest_float("lr", 0.01, 0.1)
    result = train(rate, trial.report)
    if trial.number == 1:
        raise optuna.TrialPruned
    if trial.number == 2:
        raise ValueError("planted")
    return result


if sys.argv[1] == "optuna":
    import optuna

    study = optuna.create_study(study_name="rate scan", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=4, catch=(ValueError,))
    asked = optuna.create_study(study_name="asked", direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    one = asked.ask({"lr": optuna.distributions.FloatDistribution(0.01, 0.1)})
    asked.tell(one, -train(one.params["lr"]))
    batch = [asked.ask() for _ in range(3)]
    for each in batch:
        asked.tell(each, 0.0)
    together = optuna.create_study(study_name="together", direction="maximize")
    together.optimize(lambda trial: -train(trial.suggest_float("lr", 0.01, 0.1), trial.report), n_trials=4, n_jobs=2)
    train(study.best_params["lr"], steps=2 * STEPS)
elif sys.argv[1] == "loop":
    for rate in (0.1, 0.01, 0.03, 0.003):
        labbook.log(result=train(rate))
else:
    for rate in (0.1, 0.01):
        with labbook.trial(lr=rate):
            train(rate)
    with labbook.trial(lr=1.0):
        train(1.0)
        raise RuntimeError("diverged")
