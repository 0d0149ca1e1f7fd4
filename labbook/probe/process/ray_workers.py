"""Has the workers of a running Ray cluster start the probe: they have the environment of the cluster, not of the run.

The job of the program, and one that `ray job submit` sends, gets two more variables in its runtime environment. A node
that cannot read the journal or the probe's folder starts its workers as without them.
"""

import os
import sys

from .. import wrapping
from ..events.jsonl import parse
from ..events.protocol import ENV_PROBE

_JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"


def attach(module, probe):
    """Watches `ray.init`, the errors of tasks, or sent jobs, right after the import of the module that defines them."""
    if module.__name__ == "ray.exceptions":
        _watch_errors(module.RayTaskError, 3, "cause", probe)
    elif hasattr(module, "UserExceptionWithTraceback"):
        _watch_errors(module.UserExceptionWithTraceback, 1, "exc", probe)
    elif module.__name__.endswith(".job.sdk"):
        _watch_jobs(module.JobSubmissionClient, probe)
    else:
        _watch_init(module, probe)


def _watch_errors(error_class, position, name, probe):
    """Ray catches what a task or a training function raised, and makes an error of its own of it in the worker.

    The program gets a copy, which has no traceback object. `position` and `name` are those of the argument with it.
    """

    def after(result, args, kwargs):
        cause = kwargs.get(name, args[position] if len(args) > position else None)
        if isinstance(cause, Exception) and cause.__traceback__ is not None and probe.exceptions is not None:
            probe.exceptions.record("task", cause)

    error_class.__init__ = wrapping.wrap_function(error_class.__init__, probe.guard("ray errors"), after=after)


def _watch_init(worker, probe):
    original, guard = worker.init, probe.guard("ray")

    def init(*args, **kwargs):
        with guard:
            kwargs = _add_probe_variables(args, kwargs, probe)
        return original(*args, **kwargs)

    worker.init = wrapping.transparent_wrapper(init, original)


def _watch_jobs(client, probe):
    """Follows a job that is sent to a cluster: its program, and the workers that this starts."""
    original, guard = client.submit_job, probe.guard("ray jobs")

    def submit_job(*args, **kwargs):
        with guard:
            kwargs = _add_variables(kwargs, {}, probe)
        return original(*args, **kwargs)

    client.submit_job = wrapping.transparent_wrapper(submit_job, original)


def _add_probe_variables(args, kwargs, probe):
    """Keyword arguments of `ray.init` with the variables of the probe, where it connects to a running cluster."""
    if not _finds_cluster(args[0] if args else kwargs.get("address")):
        return kwargs
    config = parse(os.environ.get(_JOB_CONFIG) or "{}").get("runtime_env") or {}
    return _add_variables(kwargs, config.get("env_vars") or {}, probe)


def _add_variables(kwargs, known, probe):
    """Keyword arguments with the variables of the probe in their runtime environment.

    Args:
        kwargs: Of a function of Ray.
        known: Variables that the job of this process has already.
    """
    given = kwargs.get("runtime_env")
    variables = {"PYTHONPATH": os.path.join(probe.folder, "inject") + ":${PYTHONPATH}"}
    variables[ENV_PROBE] = os.environ[ENV_PROBE]
    if not (given is None or type(given) is dict) or all(known.get(name) == variables[name] for name in variables):
        return kwargs
    own = (given or {}).get("env_vars") or {}
    if any(name in known or name in own for name in variables):
        probe.unobserved("the workers of Ray", "the program sets PYTHONPATH in its runtime environment")
        return kwargs
    return dict(kwargs, runtime_env=dict(given or {}, env_vars=dict(own, **variables)))


def _finds_cluster(address):
    """Whether `ray.init` connects to a cluster that runs already; one that it starts inherits the environment."""
    address = address or os.environ.get("RAY_ADDRESS") or ""
    if address == "local":
        return False
    if address not in ("", "auto"):
        return True
    utils = sys.modules.get("ray._private.utils")
    return utils is not None and bool(utils.read_ray_address())
