"""`--profile`: runs the framework's profiler for a few steps after the first ones, which are unusually slow."""

import os
import time

from ..events.protocol import PROFILE

FIRST = 3
"""Earliest profiled step: what happens in a step is decided at the end of the one before."""

BEGIN = 10
"""First profiled step. Source: chosen by us; caches, allocators and autotuning are warm by then."""

ROWS = 20
FOLDER = "profile"


class Profiling:
    """One profile of this process.

    From the step before the first profiled one on, the probe inspects no tensor and measures no gradient norm
    (`probe.is_profiling`), so that the profile shows the program's own work.

    Args:
        module: `torch` or `paddle`.
        steps: Number of profiled steps.
        limit: The run's `--max-steps`, or `None`.
    """

    def __init__(self, module, probe, steps, limit=None):
        self._name = module.__name__
        self._probe = probe
        self._steps = steps
        self._begin = BEGIN if limit is None else max(FIRST, min(BEGIN, limit - steps + 1))
        self._session = _TorchSession(module) if self._name == "torch" else _PaddleSession(module)
        self._state = "waiting" if is_first_rank() else "off"
        self._began = 0.0
        self._last = 0
        probe.at_exit(self.finish)
        probe.after_fork(self.forget)

    def forget(self):
        """Disable profiling in a forked child: the profile belongs to the parent."""
        self._state, self._probe.is_profiling = "off", False

    def on_step(self, step):
        """Process the end of a step: start, continue or stop the profiler. Never raises."""
        with self._probe.guard("profile"):
            if self._state == "waiting" and step >= self._begin - 2:
                self._probe.is_profiling = True
            if self._state == "waiting" and step >= self._begin - 1:
                self._state = "failed"
                self._start()
                self._state, self._began, self._begin = "running", time.perf_counter(), step + 1
            elif self._state == "running":
                self._last = step
                if step >= self._begin + self._steps - 1:
                    self._write_event()

    def _start(self):
        try:
            self._session.start()
        except BaseException:
            self._probe.is_profiling = False
            raise

    def finish(self):
        """Write an incomplete profile at the end of the program, or the reason why there is none."""
        if self._state == "running" and self._last >= self._begin:
            self._write_event()
        elif self._state in ("waiting", "running") and self._probe.step:
            self._probe.unobserved("--profile", "the run ended before step %d" % self._begin)
        elif self._state == "failed":
            self._probe.unobserved("--profile", "the profiler of %s could not be started" % self._name)
        self._state = "off"

    def _write_event(self):
        self._state, self._probe.is_profiling = "off", False
        seconds = time.perf_counter() - self._began
        self._session.stop()
        rows = sorted(self._session.rows(), key=_weight, reverse=True)
        path = ""
        with self._probe.guard("profile.trace"):
            folder = os.path.join(self._probe.journal, FOLDER)
            os.makedirs(folder, mode=0o700, exist_ok=True)
            name = "%s-%d%s" % (self._name, self._probe.pid, self._session.ending)
            self._session.export(os.path.join(folder, name))
            path = FOLDER + "/" + name
        self._probe.event(
            PROFILE,
            framework=self._name,
            begin_step=self._begin,
            end_step=self._last,
            seconds=round(seconds, 6),
            device=any(row["device_ms"] for row in rows),
            rows=rows[:ROWS],
            operators=len(rows),
            trace=path,
        )


def _weight(row):
    own = row["own_ms"] if row["own_ms"] is not None else row["total_ms"]
    return max(own or 0.0, row["device_ms"] or 0.0)


def is_first_rank():
    """Whether this process is the only one of its job, or the first."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "PADDLE_TRAINER_ID", "SLURM_PROCID"))


class _TorchSession:
    """`torch.profiler`, on the CPU and, if the program has initialised it, on the GPU."""

    ending = ".json.gz"

    def __init__(self, torch):
        self._torch = torch
        self._profiler = None
        self._stopped_ns = 0

    def start(self):
        """Start the profiler."""
        from torch import profiler

        kinds = [profiler.ProfilerActivity.CPU]
        if self._torch.cuda.is_available() and self._torch.cuda.is_initialized():
            kinds.append(profiler.ProfilerActivity.CUDA)
        self._profiler = profiler.profile(activities=kinds, profile_memory=True)
        self._profiler.start()

    def stop(self):
        """Stop the profiler."""
        self._stopped_ns = time.time_ns()
        self._profiler.stop()

    def _excess(self):
        """Return the microseconds that ranges lasted after the stop, by name.

        The end of a step is seen inside `Optimizer.step`: its range would have the time of the stop itself.
        """
        found = {}
        begin = getattr(self._profiler.profiler.kineto_results, "trace_start_ns", None)  # from PyTorch 2.5 on
        end = (self._stopped_ns - begin()) / 1e3 if begin is not None else float("inf")
        for event in self._profiler.events():
            if event.time_range.start < end < event.time_range.end:
                found[event.key] = found.get(event.key, 0.0) + event.time_range.end - end
        return found

    def rows(self):
        """Return time by operator, in milliseconds over all profiled steps."""
        rows = []
        excess = self._excess()
        for event in self._profiler.key_averages():
            if event.key == "[memory]":
                continue
            device = getattr(event, "self_device_time_total", None)
            device = getattr(event, "self_cuda_time_total", 0) if device is None else device
            rows.append(
                {
                    "name": str(event.key)[:200],
                    "calls": event.count,
                    "own_ms": round(event.self_cpu_time_total / 1e3, 4),
                    "total_ms": round(max(0.0, event.cpu_time_total - excess.get(event.key, 0.0)) / 1e3, 4),
                    "device_ms": round(device / 1e3, 4) if device else None,
                }
            )
        return rows

    def export(self, path):
        """Write the trace for Perfetto or chrome://tracing."""
        self._profiler.export_chrome_trace(path)


class _PaddleSession:
    """`paddle.profiler`."""

    ending = ".json"

    def __init__(self, paddle):
        self._paddle = paddle
        self._profiler = None

    def start(self):
        """Start the profiler, without its default trace in the working folder."""
        from paddle import profiler

        targets = [profiler.ProfilerTarget.CPU]
        if self._paddle.device.get_device().startswith("gpu"):
            targets.append(profiler.ProfilerTarget.GPU)
        self._profiler = profiler.Profiler(targets=targets, on_trace_ready=lambda _: None, profile_memory=True)
        self._profiler.start()

    def stop(self):
        """Stop the profiler."""
        self._profiler.stop()

    def rows(self):
        """Return time by operator, in milliseconds over all profiled steps, including called operators."""
        from paddle.profiler import profiler_statistic

        result = self._profiler.profiler_result
        found = profiler_statistic.StatisticData(result.get_data(), result.get_extra_info()).event_summary.items
        return [
            {
                "name": str(name)[:200],
                "calls": item.call,
                "own_ms": None,
                "total_ms": round(item.cpu_time / 1e6, 4),
                "device_ms": round(item.gpu_time / 1e6, 4) if item.gpu_time else None,
            }
            for name, item in found.items()
        ]

    def export(self, path):
        """Write the trace for Perfetto or chrome://tracing."""
        self._profiler.export(path, format="json")
