"""Converts settings objects of common libraries to plain data: dictionaries, lists, strings and numbers."""

import os
import re
import sys

from ..events.jsonl import MAX_DEPTH, MAX_ITEMS, describe
from .user_files import is_user_file

_BAG_WORDS = "Namespace AttrDict CfgNode Config Configs Params HParams Options Settings Args Arguments"
_BAGS = tuple(_BAG_WORDS.split())
"""Ends of the names of classes whose attributes are settings."""

_LIBRARY_WORDS = "yacs ml_collections configparser easydict munch addict box"
_LIBRARIES = frozenset(_LIBRARY_WORDS.split())
"""Libraries whose objects are settings and nothing else."""

_SCALARS = (str, int, float, bool, type(None))
_MOST_PARTS = 8
_NOT_PLAIN = float("-inf")

_NUMBER_WORDS = (
    "lr learning_rate epochs num_epochs n_epochs max_epochs epoch_num batch_size bs batchsize train_batch_size seed "
    "random_seed momentum weight_decay wd dropout hidden hidden_size hidden_dim num_layers n_layers embed_dim dim "
    "num_classes n_classes max_steps warmup warmup_steps gamma beta1 beta2 temperature patience "
    "num_workers device"
)
NAMES_OF_NUMBERS = frozenset(_NUMBER_WORDS.split())
_RESULT = re.compile(
    r"(?:(?:best|val|valid|test|train|eval|dev|final)_)*"
    r"(?:loss|acc|accuracy|f1|auc|rmse|mae|mse|r2|score|ppl|perplexity|bleu|dice|iou|reward|top1)"
)
"""Names of numbers that a training gives: a dictionary with one beside its settings is a row of results."""
_FEWEST_KEYS = 2
"""Keys of a dictionary of any name that are those of settings. Source: chosen by us."""


def to_plain(value, depth=0):
    """Convert a settings object to plain data; other values are described in a few words.

    Supports dictionaries and their subclasses, `Namespace`, dataclasses, attrs, pydantic, `ConfigParser`, OmegaConf,
    ml_collections and mmengine.
    """
    if type(value) in _SCALARS:
        return value
    if depth >= MAX_DEPTH:
        return describe(value)
    inner = _fields(value)
    if inner is not None:
        few = list(inner.items())[:MAX_ITEMS]
        return {name if type(name) is str else describe(name): to_plain(item, depth + 1) for name, item in few}
    if isinstance(value, (list, tuple)):
        return [to_plain(item, depth + 1) for item in value[:MAX_ITEMS]]
    if isinstance(value, (set, frozenset)):
        return sorted([str(to_plain(item, depth + 1)) for item in list(value)[:MAX_ITEMS]])
    if isinstance(value, bytes):
        return value[:200].decode("utf-8", "replace")
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, os.PathLike):  # jsonargparse has one of its own
        return str(value)
    return describe(value)


def settings_of_class(kind):
    """Return the simple attributes of a class that is used as a namespace of settings."""
    return {
        name: value
        for name, value in vars(kind).items()
        if not name.startswith("_") and isinstance(value, (*_SCALARS, list, tuple, dict))
    }


def is_settings_object(value):
    """Whether a value is of a library for settings, or of a class of the user or argparse that is named as they are."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in _LIBRARIES:
        return True
    return kind.__name__.endswith(_BAGS) and (kind.__module__ == "argparse" or is_of_user(kind))


def has_keys_of_settings(value):
    """Whether a plain dictionary, or object of a declared class, has keys of settings, as `lr`.

    A batch, a history or a checkpoint is not plain.
    """
    fields = value if isinstance(value, dict) else _declared_fields(value) if is_of_user(type(value)) else None
    return fields is not None and _count_keys(fields) >= _FEWEST_KEYS


def is_of_user(kind):
    """Whether a class or function is defined by the program, not by a library."""
    home = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return kind.__module__ == "__main__" or bool(home and is_user_file(home))


def _count_keys(values, depth=0):
    """Return how many keys of a dictionary, and of those in it, are names of numbers; negative if it is not plain."""
    if depth > MAX_DEPTH:
        return _NOT_PLAIN
    count = 0
    for name, item in list(values.items())[:MAX_ITEMS]:
        inner = item if isinstance(item, dict) else _declared_fields(item)
        if inner is not None:
            count += _count_keys(inner, depth + 1)
            continue
        parts = item if isinstance(item, (list, tuple)) else (item,)
        if type(name) is not str or len(parts) > _MOST_PARTS or any(type(part) not in _SCALARS for part in parts):
            return _NOT_PLAIN
        if type(item) is float and _RESULT.fullmatch(name.lower()):
            return _NOT_PLAIN
        count += name.lower() in NAMES_OF_NUMBERS
    return count


def has_arrays(value):
    """Whether a dictionary holds arrays or tensors: the parameters of a model, or a batch, and no settings."""
    return isinstance(value, dict) and any(getattr(one, "ndim", 0) and hasattr(one, "dtype") for one in value.values())


def read_declared_defaults(settings):
    """The default values that the dataclass of a settings object declares, by name; empty for other objects."""
    fields = getattr(type(settings), "__dataclass_fields__", {})
    return {name: field.default for name, field in fields.items() if type(field.default) in _SCALARS}


def _fields(value):
    """Return the named values of a settings object, `None` for other objects."""
    if isinstance(value, type):
        return None
    kind = type(value)
    family = kind.__module__.partition(".")[0]
    if family == "omegaconf":
        container = sys.modules["omegaconf"].OmegaConf.to_container(value, resolve=False)
        return container if isinstance(container, dict) else {str(at): item for at, item in enumerate(container)}
    if isinstance(value, dict):
        return dict(dict.items(value))
    if family in ("mmengine", "mmcv") and hasattr(value, "_cfg_dict"):
        return dict(dict.items(value._cfg_dict))
    if family == "ml_collections" and hasattr(value, "to_dict"):
        return value.to_dict()
    if family == "configparser":
        # Raw: a value that refers to a missing one raises.
        parts = value.parser.items(value.name, raw=True) if hasattr(value, "parser") else None
        return dict(parts) if parts else {part: value[part] for part in value.sections()}
    declared = _declared_fields(value)
    if declared is None and kind.__name__.endswith(_BAGS):
        return {**(settings_of_class(kind) if is_of_user(kind) else {}), **_public_attributes(value)}
    return declared


def _declared_fields(value):
    """Return the named values of a dataclass, an attrs or a pydantic object, `None` for other objects."""
    kind = type(value)
    for fields in ("__dataclass_fields__", "__attrs_attrs__"):
        if hasattr(kind, fields):
            names = getattr(kind, fields)
            names = list(names) if isinstance(names, dict) else [field.name for field in names]
            plain = settings_of_class(kind) if is_of_user(kind) else {}  # `lr = 0.1` without a type is no field
            return {**plain, **{name: value.__dict__[name] for name in names if name in getattr(value, "__dict__", {})}}
    return _public_attributes(value) if hasattr(kind, "model_fields") else None


def _public_attributes(value):
    return {name: item for name, item in vars(value).items() if not name.startswith("_")}
