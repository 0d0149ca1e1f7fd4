"""The tables of the data set with their columns; the documentation and the Parquet schemas are made from this table."""

from __future__ import annotations

from labbook.frozen import dataclass

DATASET_SCHEMA = 1
"""Format version of the data set; a data set of another version is written again."""


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Args:
        kind: "text", "int", "float", "bool", "time" (microseconds, UTC) or "texts" (a list of text).
        meaning: One line for the documentation.
    """

    name: str
    kind: str
    meaning: str


_RUN = Column("run", "text", "id of the run")

TABLES: dict[str, tuple[Column, ...]] = {
    "runs": (
        _RUN,
        Column("started", "time", "start of the run"),
        Column("duration_s", "float", "seconds from start to end; null while it is running"),
        Column("status", "text", "finished, failed, interrupted, killed, lost or running"),
        Column("verdict", "text", "healthy, suspect, unhealthy, failed or unknown"),
        Column("verdict_reason", "text", "id of the symptom behind the verdict"),
        Column("exit_code", "int", "exit status of the command"),
        Column("title", "text", "title of the entry"),
        Column("experiment", "text", "name of the experiment"),
        Column("sweep", "text", "name of the sweep that the run is a trial of"),
        Column("project", "text", "project of the code, if it is not the notebook's own"),
        Column("script", "text", "the program, relative to the root of the code"),
        Column("command", "text", "command line"),
        Column("host", "text", "name of the machine"),
        Column("author", "text", "who ran it"),
        Column("mode", "text", "dynamic, static or compiled"),
        Column("frameworks", "texts", "frameworks with their versions"),
        Column("tags", "texts", "tags"),
        Column("symptoms", "texts", "ids of the symptoms, the primary one first"),
        Column("metric", "text", "name of the primary metric"),
        Column("direction", "text", "max or min: which values of the primary metric are better"),
        Column("metric_best", "float", "best value of the primary metric"),
        Column("metric_last", "float", "last value of the primary metric"),
        Column("steps", "int", "last step of the primary metric"),
        Column("commit", "text", "commit of the code"),
        Column("branch", "text", "branch of the code"),
        Column("dirty", "bool", "whether the code had uncommitted changes"),
        Column("previous", "text", "id of the previous run of the same script"),
        Column("probe_status", "text", "how well the run was observed: ok, partial, failed, absent"),
        Column("overhead_fraction", "float", "time in the probe divided by the time of the process"),
        Column("entry", "text", "path of the entry in the notebook"),
        Column("digest", "text", "digest of the entry, by which an export finds changed runs"),
    ),
    "params": (
        _RUN,
        Column("name", "text", "name of the option, nested ones with dots: optimizer.lr"),
        Column("value", "text", "value as text"),
        Column("number", "float", "value as a number; null if it is none"),
    ),
    "metrics": (
        _RUN,
        Column("name", "text", "name of the metric"),
        Column("first", "float", "first value"),
        Column("best", "float", "best value"),
        Column("last", "float", "last value"),
        Column("steps", "int", "step of the last value"),
        Column("is_primary", "bool", "whether it is the primary metric of the run"),
    ),
    "series": (
        _RUN,
        Column("name", "text", "name of the quantity: loss, grad_norm, lr, or as logged by the program"),
        Column("source", "text", "probe, labbook, tensorboard, visualdl, wandb, mlflow or text"),
        Column("rank", "int", "rank in distributed training"),
        Column("step", "int", "step of the point"),
        Column("value", "float", "value of the point; may be NaN or infinite"),
        Column("low", "float", "smallest value in the window of the point"),
        Column("high", "float", "largest value in the window of the point"),
    ),
    "checks": (
        _RUN,
        Column("check", "text", "id of the health check"),
        Column("verdict", "text", "ok, warn, fail, note or not observed"),
        Column("tier", "int", "1 a logical invariant, 2 a statistical test, 3 a hint"),
        Column("family", "text", "numeric, gradient, activation, convergence, ..."),
        Column("title", "text", "name of the row in the checklist"),
        Column("observed", "text", "what was measured"),
        Column("explained_by", "text", "id of the check that this one is a consequence of"),
        Column("module", "text", "module of the model"),
        Column("parameter", "text", "parameter of the model"),
        Column("step", "int", "step at which it was found"),
    ),
    "findings": (
        _RUN,
        Column("position", "int", "1 is the primary finding"),
        Column("symptom", "text", "id of the symptom; empty if only the family is known"),
        Column("family", "text", "family of the failure"),
        Column("class", "text", "class of the symptom"),
        Column("tier", "int", "how certain it is: 1, 2 or 3"),
        Column("severity", "text", "severity of the symptom"),
        Column("title", "text", "title of the symptom"),
        Column("message", "text", "first line of the exception or of the output"),
        Column("exception", "text", "class of the exception"),
        Column("fingerprint", "text", "identity of the failure"),
        Column("file", "text", "file of the user's code"),
        Column("line", "int", "line in that file"),
        Column("step", "int", "step at which it was found"),
        Column("rank", "int", "rank in distributed training"),
        Column("follows_from", "text", "symptom or family of the finding that this one is a consequence of"),
    ),
    "fixes": (
        _RUN,
        Column("fixed_by", "text", "id of the run without the failure"),
        Column("change", "text", "description of the change"),
        Column("symptom", "text", "symptom of the run that failed"),
        Column("family", "text", "family of the failure"),
        Column("fingerprint", "text", "identity of the failure"),
    ),
    "environments": (
        _RUN,
        Column("source", "text", "python, package, hardware, gpu, container or framework"),
        Column("name", "text", "name of the package or fact"),
        Column("value", "text", "its version or value"),
    ),
    "artifacts": (
        _RUN,
        Column("path", "text", "file or folder, relative to the working folder if it is inside"),
        Column("mode", "text", "read, written or read and written"),
        Column("size_bytes", "int", "size; null if unknown"),
        Column(
            "fingerprint", "text", "sha256:... of the whole file, sampled:... of a large one, manifest:... of a folder"
        ),
        Column("before", "text", "fingerprint before the run wrote it"),
        Column("members", "int", "number of files in this row"),
    ),
}
"""Table -> its columns. Rows of a month are ordered by run; those of a run as in its entry."""
