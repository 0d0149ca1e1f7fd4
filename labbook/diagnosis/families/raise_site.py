"""The family of an exception that no page knows, by the file of a library that raised it.

`torch/serialization.py` raises what is wrong with checkpoints, `PIL/Image.py` what is wrong with pictures, whatever the
words are. Only the innermost frame counts: what a library's callers do is their own affair.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from labbook.model.evidence import ObservedException
from labbook.model.run import Frame

_PLACES = (
    ("compile_error", r"torch[\\/](?:jit|_dynamo|_inductor|_functorch|fx)[\\/]|torch[\\/]utils[\\/]cpp_extension\.py"),
    ("compile_error", r"paddle[\\/](?:fluid[\\/]dygraph[\\/]dygraph_to_static|jit)[\\/]|[\\/]triton[\\/]compiler\b"),
    ("unsupported_op", r"torch[\\/]onnx[\\/]|[\\/]onnxruntime[\\/]capi[\\/]"),
    ("checkpoint_load_error", r"torch[\\/]serialization\.py|[\\/]safetensors[\\/]|paddle[\\/]framework[\\/]io\.py"),
    ("nccl_or_collective", r"torch[\\/]distributed[\\/](?:distributed_c10d|c10d_logger|rendezvous)\.py"),
    ("data_decode_error", r"[\\/]PIL[\\/]|[\\/]h5py[\\/]_hl[\\/]files\.py|[\\/](?:zipfile|gzip|tarfile|lzma|bz2)\.py"),
    ("data_decode_error", r"[\\/]pandas[\\/](?:io|_libs)[\\/].*pars|[\\/]soundfile\.py|[\\/]torchaudio[\\/]_?backend"),
    ("config_error", r"[\\/](?:omegaconf|hydra|yacs|jsonargparse)[\\/]|[\\/](?:argparse|configparser)\.py"),
    ("config_error", r"[\\/](?:yaml|ruamel[\\/]yaml)[\\/](?:constructor|parser|scanner|reader|composer|resolver)\.py"),
    ("data_decode_error", r"[\\/]json[\\/](?:decoder|scanner)\.py|[\\/]xml[\\/]etree[\\/]"),
    ("missing_dependency", r"[\\/]importlib[\\/](?:metadata[\\/]|__init__\.py)|[\\/]pkg_resources[\\/]"),
    ("other", r"[\\/](?:urllib3|requests|http|urllib|huggingface_hub)[\\/]"),
)
"""Family and the end of a path, of torch 0.4 to 2.13, paddle 2 and 3 and the libraries beside them."""
_SOURCE_BUILD = re.compile(r"[\\/](?:torch|paddle)[\\/](?:jit|onnx|_\w+|distributed)[\\/]")
"""The frameworks where they are installed from their sources, outside of the folders of packages."""
_OF_FUNCTIONS = (
    (
        "pickling_error",
        re.compile(
            r"[\\/]multiprocessing[\\/](?:reduction\.py:dump|connection\.py:_send\w*)$|[\\/]cloudpickle[\\/].*:dump$"
        ),
    ),
    ("dataloader_worker_died", re.compile(r"[\\/]multiprocessing[\\/]connection\.py:_recv\w*$")),
    (
        "dataloader_worker_died",
        re.compile(r"multiprocessing[\\/ ]{1,4}spawn\.py:(?:spawn_main|_main|prepare|_fixup\w*|_check_not\w*)$"),
    ),
    ("compile_error", re.compile(r"[\\/]inspect\.py:(?:findsource|getsource\w*)$")),
    ("file_not_found", re.compile(r"[\\/]PIL[\\/]ImageFont\.py:")),
    ("checkpoint_key_mismatch", re.compile(r"torch[\\/]nn[\\/]modules[\\/]module\.py:load_state_dict$")),
    ("cuda_driver_mismatch", re.compile(r"torch[\\/]cuda[\\/]__init__\.py:_lazy_init$")),
    ("checkpoint_load_error", re.compile(r"paddle[\\/]fluid[\\/]io\.py:(?:load\w*|set_program_state)$")),
    ("shape_mismatch", re.compile(r"[\\/]_utils[\\/]collate\.py:\w*collate\w*$")),
)
_NATIVE = re.compile(r"\bINTERNAL ASSERT FAILED at [\"'](?P<file>[^\"'\n]{3,300})")
_OF_NATIVE = tuple(
    (family, re.compile(place))
    for family, place in (
        ("unsupported_op", r"jit/serialization/export|/onnx/"),
        ("checkpoint_load_error", r"caffe2/serialize|jit/serialization/(?:import|unpickler|pickler)"),
        ("nccl_or_collective", r"/(?:c10d|distributed)/"),
        ("compile_error", r"csrc/(?:jit|dynamo|inductor|fx)/"),
        ("cuda_driver_mismatch", r"c10/cuda/CUDAFunctions|cuda/Module\.cpp|cuda/CUDAContext"),
        ("cudnn_error", r"/cudnn/|CuDNN|CUDABlas"),
    )
)
_SITES = tuple((family, re.compile(place)) for family, place in _PLACES)


_IMPORTS = re.compile(r"^(?:import|from) [\w.]")
_SETTING_READ = re.compile(
    r"\b(?:int|float|bool|eval|literal_eval|str(?:to|2)bool|loads)\((?:[^()]|\([^()]*\)){0,60}?"
    r"(?:environ\b|getenv\(|sys\.argv|\b(?:args|opts?|cfg|conf|config|FLAGS|hparams)[.\[])"
)
_OF_NAMES_AND_CALLS = ("TypeError", "AttributeError", "NameError", "KeyError", "SyntaxError", "ValueError")


def family_of_import(raised: ObservedException) -> str | None:
    """The family of what a library raised while a program imported it, or `None`: no line of the program runs then.

    Args:
        raised: Any exception.
    """
    frames = raised.frames
    own = next((place for place in reversed(range(len(frames))) if frames[place].user), None)
    if own is None or own == len(frames) - 1 or not _IMPORTS.match(frames[own].source):
        return None
    # Python's own errors come from code that does not fit another package; others from what is under the code.
    return "api_version_mismatch" if raised.type in _OF_NAMES_AND_CALLS else "import_abi_mismatch"


def reads_setting(raised: ObservedException) -> bool:
    """Whether it was raised where the environment, the command line or a configuration is turned into a value.

    Args:
        raised: Any exception.
    """
    return raised.type == "ValueError" and bool(raised.frames) and bool(_SETTING_READ.search(raised.frames[-1].source))


_CHECKPOINT_READ = re.compile(
    r"\b\w*(?:state_?dicts?|checkpoints?|ckpts?|pretrained\w*|weights_dict"
    r"|saved)\w*(?:\[[^\]]{1,60}\]){0,2}\[[^\]]{1,60}\]",
    re.IGNORECASE,
)


def reads_checkpoint(raised: ObservedException) -> bool:
    """Whether a key was missing where a line takes a part out of a checkpoint.

    Args:
        raised: Any exception.
    """
    if raised.type != "KeyError" or not raised.frames:
        return False
    return _CHECKPOINT_READ.search(raised.frames[-1].source) is not None


def family_by_native_place(sentence: str) -> str | None:
    """The family that the file stands for in which a check of torch's own native code failed, or `None`.

    Args:
        sentence: A message on one line.
    """
    found = _NATIVE.search(sentence)
    return next((family for family, asks in _OF_NATIVE if found and asks.search(found["file"])), None)


def family_by_place(frames: Sequence[Frame]) -> str | None:
    """The family that the raising file stands for, or `None`.

    Args:
        frames: Of the exception, outermost first.
    """
    if not frames or (frames[-1].user and not _SOURCE_BUILD.search(frames[-1].file)):
        return None
    place = f"{frames[-1].file}:{frames[-1].function}"
    of_function = next((family for family, asks in _OF_FUNCTIONS if asks.search(place)), None)
    if of_function is not None:
        return of_function
    return next((family for family, place in _SITES if place.search(frames[-1].file)), None)
