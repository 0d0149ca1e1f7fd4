"""`checklist`: checks data, model, loss, gradients and optimizer before a long training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from labbook.checks import rows_data, rows_step
from labbook.checks.backend import Backend
from labbook.checks.backend_choice import choose_backend
from labbook.checks.batches import Batch, Forward, Loss, first_batch, split_batch
from labbook.checks.report_to_run import report
from labbook.checks.results import Checklist, Row, most_serious
from labbook.checks.state_guard import preserve_state


def checklist(
    model: Any,  # noqa: ANN401 - of either framework
    loader: Iterable[Any],
    optimizer: Any = None,  # noqa: ANN401
    loss: Loss | None = None,
) -> Checklist:
    """Check data, model, loss, gradients, optimizer, one step and memory on the first batch of a loader.

    All state is restored: weights, gradients, buffers, modes, optimizer and random state are bitwise as before. Only
    an iterator passed as loader loses its first batch, which the result reports.

    Args:
        model: A module of PyTorch or a layer of PaddlePaddle.
        loader: Yields batches: (inputs, ..., targets), a dictionary for `model(**batch)`, or inputs alone.
        optimizer: Of the same framework; without it, no step is checked.
        loss: `loss(output, target)`, where target is the last part of a batch, or the whole dictionary. Without it,
            `output.loss` of the model is used.

    Returns:
        One row per check, with expectation and advice.

    Raises:
        TypeError: The objects belong to no supported framework.
        ValueError: The loader is empty.
    """
    backend = choose_backend(model, optimizer)
    rows: list[Row] = []
    raised: Exception | None = None
    with preserve_state(backend, model, optimizer, loader):
        batch_data, spent = first_batch(loader)
        batch = split_batch(batch_data, model, backend)
        rows += rows_data.rows(backend, batch, spent)
        try:
            _append_model_rows(backend, model, batch, optimizer, loss, rows)
        except Exception as error:  # raised by the user's model or loss; reported as a row
            raised = error
            rows.append(
                Row("forward and backward", "no error", f"{type(error).__name__}: {error}"[:300], "fail", "see above")
            )
    verdict = most_serious([row.verdict for row in rows])
    return report(Checklist("Checklist before training", verdict, _summary(rows), tuple(rows), raised))


def _append_model_rows(
    backend: Backend,
    model: Any,  # noqa: ANN401
    batch: Batch,
    optimizer: Any,  # noqa: ANN401
    loss: Loss | None,
    rows: list[Row],
) -> None:
    """Append rows one by one, so that rows before an exception of the user's code are reported."""
    backend.set_training(model, True)
    saved: dict[int, int] = {}

    def add_size(tensor: Any) -> None:  # noqa: ANN401
        saved[id(tensor)] = backend.n_bytes(tensor)

    with backend.with_grad(), backend.watch_saved_tensors(add_size):
        forward = batch.run(model, loss, backend)
    rows += rows_data.output_rows(backend, batch, forward, loss)
    rows += rows_step.optimizer_rows(backend, model, optimizer)
    if backend.is_tensor(forward.loss) and all(n == 1 for n in forward.loss.shape):
        rows += _train_rows(backend, model, forward, optimizer)
    rows.append(rows_step.memory_row(backend, model, optimizer, sum(saved.values()), batch))
    rows += rows_step.mode_rows(backend, model, batch)


def _train_rows(backend: Backend, model: Any, forward: Forward, optimizer: Any) -> list[Row]:  # noqa: ANN401
    if not backend.requires_grad(forward.loss):
        detail = "something between model and loss cuts the graph: detach, numpy, item, argmax, no_grad"
        return [Row("loss has a graph", "gradients can flow", "the loss requires no gradient", "fail", detail)]
    with backend.with_grad():
        backend.backward(forward.loss)
    rows = rows_step.gradient_rows(backend, model)
    if optimizer is not None:
        rows += rows_step.step_rows(backend, model, optimizer)
    return rows


def _summary(rows: list[Row]) -> str:
    failed = [row.check for row in rows if row.verdict == "fail"]
    warned = [row.check for row in rows if row.verdict == "warn"]
    if not failed and not warned:
        return f"{len(rows)} checks, nothing found."
    parts = [f"failed: {', '.join(failed)}"] if failed else []
    parts += [f"look at: {', '.join(warned)}"] if warned else []
    return f"{len(rows)} checks; {'; '.join(parts)}."
