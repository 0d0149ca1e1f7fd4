"""The family that the class of an exception stands for, where a library has classes of its own for one kind of failure.

`omegaconf.errors.MissingMandatoryValue` speaks of a configuration, `zipfile.BadZipFile` of a file's content, whatever
the message says. Classes of Python itself and general ones of libraries are not here: they say nothing.
"""

from __future__ import annotations

import re

_MODULES = (
    (
        "config_error",
        r"^(?:hydra|omegaconf|yacs|jsonargparse|voluptuous|jsonschema|click|absl\.flags|fire|configparser|argparse"
        r"|simple_parsing"
        r"|yaml|ruamel|toml|tomli|tomllib|pydantic|pydantic_core|docopt|gin|confuse|dynaconf|tyro|schema|cerberus"
        r"|strictyaml)\b",
    ),
    (
        "data_decode_error",
        r"^(?:PIL|zipfile|gzip|tarfile|lzma|zlib|xml|json|simplejson|ujson|soundfile|wave|av|decord|imageio"
        r"|tifffile|pydicom"
        r"|nibabel|rasterio|lmdb|cv2|audioread|librosa|h5py|lxml|csv|msgpack|tensorflow\.errors\.DataLoss"
        r"|webdataset)\b",
    ),
    ("compile_error", r"^(?:triton\.compiler|torch\._dynamo|torch\._inductor|torch\.jit|torch\.fx)\b"),
    ("unsupported_op", r"^(?:onnx|torch\.onnx|onnxruntime|tensorrt)\b"),
    ("checkpoint_load_error", r"^(?:safetensors|safetensors_rust)\b"),
    ("pickling_error", r"^(?:cloudpickle|dill)\b"),
    ("missing_dependency", r"^(?:pkg_resources|importlib\.metadata)\b"),
)
_NAMES = (
    (
        "config_error",
        r"(?:Config(?:uration)?\w*(?:Error|Exception)|Misconfiguration\w*|ArgumentParserError|ParserKeyError"
        r"|OverrideParse\w*"
        r"|Flag\w*Error|UsageError|BadParameter|NoSuchOption|MissingParameter|NoSectionError|NoOptionError"
        r"|TOMLDecodeError"
        r"|TomlDecodeError|ScannerError|ComposerError|ConstructorError|MultipleInvalid|MissingMandatoryValue"
        r"|SchemaError|UnknownOptionError)$",
    ),
    (
        "data_decode_error",
        r"(?:UnidentifiedImageError|JSONDecodeError|UnicodeDecodeError|BadZip[Ff]ile|BadGzipFile|LibsndfileError"
        r"|DECORDError"
        r"|InvalidDataError|DecompressionBomb\w*|TiffFileError|InvalidDicomError|ImageFileError|DecodeError"
        r"|DecodingError"
        r"|ExpatError|XMLSyntaxError|NoBackendError|DatasetGeneration\w*|DataLossError)$",
    ),
    ("shape_mismatch", r"(?:Shape|Dimension\w*|SizeMismatch|ShapeMismatch)Error$"),
    ("data_empty", r"(?:EmptyDataError|EmptyDataset\w*|NoDataError)$"),
    ("timeout", r"(?:TimeLimit\w*|DeadlineExceeded\w*|TimeoutExpired)$"),
    (
        "compile_error",
        r"(?:CompilationError|CompileError|InductorError|BackendCompilerFailed|TorchRuntimeError"
        r"|Dygraph2StaticException)$",
    ),
)
_OF_MODULES = tuple((family, re.compile(pattern)) for family, pattern in _MODULES)
_OF_NAMES = tuple((family, re.compile(pattern)) for family, pattern in _NAMES)
_GENERAL = re.compile(
    r"^(?:Type|Attribute|Name|Import|ModuleNotFound|Index|ZeroDivision|OS|IO|FileNotFound|Permission|Memory"
    r"|Recursion)Error$"
    r"|^(?:Keyboard|System|Generator|Stop)\w+$"
)


def family_by_class(module: str, name: str) -> str | None:
    """The family, or `None` for a class that may mean anything.

    Args:
        module: Of the class, "" where it is not known.
        name: Of the class.
    """
    if _GENERAL.match(name):
        return None
    family = next((family for family, asks in _OF_NAMES if asks.search(name)), None)
    if family is None and module:
        family = next((family for family, asks in _OF_MODULES if asks.match(module)), None)
    return family


def is_general(name: str) -> bool:
    """Whether it is a class of Python that pages read by its own message: no wording of settings or data decides it."""
    return _GENERAL.match(name) is not None
