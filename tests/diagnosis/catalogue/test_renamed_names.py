"""What labbook says of names that libraries removed, and of messages that only look like them."""

from __future__ import annotations

from order_of_tests import in_one_test

from labbook.diagnosis.catalogue.matcher import Matcher
from labbook.diagnosis.catalogue.renamed_names import find_misspelling, find_rename
from labbook.diagnosis.catalogue.symptom_catalogue import load_catalogue
from labbook.diagnosis.cause_ranking import diagnose
from labbook.diagnosis.text.log_reader import read_text

MATCHER = Matcher(load_catalogue())
CELL = "<ipython-input-3-0123> in <module>\n----> 1 encoder = OneHotEncoder(sparse=False)\n\n"


@in_one_test(
    ("text", "page", "sentence"),
    [
        (
            "AttributeError: 'Series' object has no attribute 'iteritems'",
            "removed_api_used",
            "pandas 2.0 removed iteritems",
        ),
        (
            "AttributeError: module 'numpy' has no attribute 'Inf'.",
            "removed_api_used",
            "NumPy 2.0 removed Inf",
        ),
        (
            "ImportError: cannot import name 'plot_roc_curve' from 'sklearn.metrics' (x.py)",
            "import_name_moved",
            "scikit-learn 1.2 removed plot_roc_curve: use RocCurveDisplay.from_estimator",
        ),
        (
            "ModuleNotFoundError: No module named 'tensorflow.contrib.rnn'",
            "removed_module_imported",
            "TensorFlow 2.0 removed",
        ),
        (
            "ModuleNotFoundError: No module named 'lightly.data.collate'",
            "removed_module_imported",
            "lightly has no module data.collate",
        ),
        ("ModuleNotFoundError: No module named 'google.cloud'", "import_module_missing", "google.cloud is missing"),
        (
            "TypeError: SGD.__init__() got an unexpected keyword argument 'lr'",
            "removed_argument_used",
            "use learning_rate",
        ),
        ("ValueError: Argument(s) not recognized: {'lr': 0.1}", "removed_argument_used", "Keras 3.0 removed lr"),
        (
            "AttributeError: 'tensorrt_bindings.tensorrt.Builder' object has no attribute 'build_engine'",
            "removed_api_used",
            "TensorRT 10 removed build_engine: use build_serialized_network",
        ),
        (
            f"{CELL}TypeError: __init__() got an unexpected keyword argument 'sparse'",
            "removed_argument_used",
            "scikit-learn 1.4 removed sparse: use sparse_output",
        ),
        (
            "TypeError: barplot() takes from 0 to 1 positional arguments but 2 were given",
            "removed_argument_used",
            "since seaborn 0.12, barplot takes arguments by name: x=..., y=..., data=...",
        ),
    ],
)
def test_a_removed_name_comes_with_its_version_and_what_to_use_now(text: str, page: str, sentence: str) -> None:
    found = diagnose(read_text(text), MATCHER).primary
    assert found is not None and found.symptom == page
    assert sentence in found.evidence[0]


@in_one_test(
    "message",
    [
        "'Net' object has no attribute 'append'",
        "module 'mynumpy' has no attribute 'float'",
        "cannot import name 'plot_roc_curve' from 'helpers'",
        "No module named 'contrib'",
        "Net.__init__() got an unexpected keyword argument 'sparse'",
        "__init__() got an unexpected keyword argument 'sparse'",
        "forward() takes 2 positional arguments but 3 were given",
    ],
)
def test_a_name_of_another_owner_is_not_explained(message: str) -> None:
    assert find_rename(message) == {}


@in_one_test(
    ("message", "source"),
    [
        (
            "Adam.__init__() got an unexpected keyword argument 'lr'",
            "o = paddle.optimizer.Adam(m.parameters(), lr=0.1)",
        ),
        ("module 'paddle.fluid.io' has no attribute 'batch'", "return fluid.io.batch(read, 8)"),
        ("'Builder' object has no attribute 'build_engine'", "self.builder.build_engine(net)"),
    ],
)
def test_a_name_of_another_library_or_in_a_module_that_is_there_was_not_removed(message: str, source: str) -> None:
    assert find_rename(message, source) == {}


@in_one_test(
    ("message", "near"),
    [
        ("KMeans.__init__() got an unexpected keyword argument 'n_cluster'", "n_clusters"),
        ("figure() got an unexpected keyword argument 'fig_size'", "figsize"),
        ("cannot import name 'train_test_spilt' from 'sklearn.model_selection' (x.py)", "train_test_split"),
        ("module 'pandas' has no attribute 'read_cvs'", "read_csv"),
        ("got an unexpected keyword argument 'random_sate'", "random_state"),
        ("Unrecognized keyword arguments passed to Dense: {'activaton': 'relu'}", "activation"),
        ("module 'mytools' has no attribute 'lod_rows'. Did you mean: 'load_rows'?", "load_rows"),
        ("Trainer.__init__() got an unexpected keyword argument 'eval_steps_per_epoch'", ""),
        ("fit() got an unexpected keyword argument 'epochs'", ""),
        ("'list' object has no attribute 'apend'", "append"),
        ("'tuple' object has no attribute 'layer'", ""),
        ("cannot import name 'transforms' from 'vision' (x.py)", ""),
        ("name 'train_test_spilt' is not defined", ""),
        ("module 'torch' has no attribute 'sampler'", "sample"),
        ("module 'skotp' has no attribute 'sampler'", ""),
        ("module 'torch.nn' has no attribute 'Lineer'", "Linear"),
        ("module 'torch.nn' has no attribute 'MaxPool2D'", "MaxPool2d"),
        ("module 'torch.nn' has no attribute 'Embeding'", "Embedding"),
        ("module 'torch.nn' has no attribute 'GatedPooling'", ""),
        ("module 'torch.optim' has no attribute 'Adan'", ""),
        ("cannot import name 'DataLoder' from 'torch.utils.data' (x.py)", "DataLoader"),
        ("module 'paddle' has no attribute 'to_tenser'", "to_tensor"),
        ("module 'paddle.nn' has no attribute 'Conv2d'", "Conv2D"),
    ],
)
def test_a_missing_name_that_is_nearly_a_usual_one_is_misspelt(message: str, near: str) -> None:
    assert find_misspelling(message).get("near", "") == near
    found = diagnose(read_text(f"Error: {message}"), MATCHER).primary
    assert found is not None and (found.symptom == "name_misspelt") == bool(near)
