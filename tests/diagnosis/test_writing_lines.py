"""A line that writes says why a file is missing, or a value cannot be written."""

import pytest

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.model.evidence import Evidence, ObservedException
from labbook.model.run import Frame

MISSING = "[Errno 2] No such file or directory: './model/history.txt'"


@pytest.mark.parametrize(
    ("kind", "message", "line", "cause", "fix"),
    [
        (
            "FileNotFoundError",
            MISSING,
            "with open(path + '/history.txt', 'a') as file:",
            "output folder",
            "os.makedirs",
        ),
        ("FileNotFoundError", MISSING, 'history = open(path, "w", encoding="utf-8")', "output folder", "os.makedirs"),
        ("FileNotFoundError", MISSING, "with open(path) as file:", "not downloaded", "os.path.abspath"),
        ("FileNotFoundError", MISSING, "frame = pd.read_csv(path)", "not downloaded", "os.path.abspath"),
        ("PicklingError", "Cannot pickle closed files", 'learn.export("a.pkl")', "open resource", "Open files"),
        ("TypeError", "Object of type float32 is not JSON serializable", "json.dump(r, f)", "json.dump", "float(x)"),
    ],
)
def test_the_line_that_writes_tells_the_cause(kind, message, line, cause, fix):
    frames = (Frame("/home/a/train.py", 3, "<module>", line, user=True),)
    raised = ObservedException(kind, message, frames=frames)
    found = diagnose(Evidence(exceptions=(raised,), framework="torch"), Matcher(load_catalogue())).primary
    assert cause in found.causes[0] and fix in found.fixes[0]
