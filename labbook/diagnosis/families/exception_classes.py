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
        r"|tifffile|pydicom|binascii|ffmpeg"
        r"|nibabel|rasterio|lmdb|cv2|audioread|h5py|lxml|csv|msgpack|tensorflow\.errors\.DataLoss"
        r"|webdataset)\b",
    ),
    (
        "compile_error",
        r"^(?:triton\.(?:compiler|runtime)|torch\._(?:dynamo|inductor|subclasses|functorch)|torch\.(?:jit|fx)"
        r"|paddle\.jit|numba\.core|distutils|setuptools|cupy\.cuda\.compiler)\b",
    ),
    (
        "nccl_or_collective",
        r"^(?:torch\.distributed(?!\.(?:checkpoint|elastic\.multiprocessing))|horovod|mpi4py|cupy\.cuda\.nccl|nccl)\b",
    ),
    ("cuda_driver_mismatch", r"^(?:pynvml|py3nvml|nvidia_smi|numba\.cuda)\b"),
    ("config_error", r"^gym(?:nasium)?\.error\b"),
    ("unsupported_op", r"^(?:onnx|torch\.onnx|tensorrt)\b"),
    ("checkpoint_load_error", r"^(?:safetensors|safetensors_rust)\b"),
    ("pickling_error", r"^(?:cloudpickle|dill)\b"),
    ("missing_dependency", r"^(?:pkg_resources|importlib\.metadata)\b"),
)
_NAMES = (
    ("api_version_mismatch", r"^(?:InvalidVersion|InvalidRequirement|\w*VersionConflict|DeprecatedError)$"),
    ("missing_dependency", r"^(?:DependencyNotInstalled|InstallationError|PackageNotFoundError|MissingDependency\w*)$"),
    ("nan_or_inf", r"^FloatingPointError$"),
    ("host_oom_killed", r"^_?(?:ArrayMemoryError|ArrowMemoryError)$"),
    ("dtype_mismatch", r"^_?(?:UFunc\w+Error|DTypePromotionError)$"),
    ("index_out_of_range", r"^AxisError$"),
    ("type_error_user_code", r"^(?:NotFittedError|FrozenInstanceError|ResetNeeded)$"),
    ("pickling_error", r"^(?:MaybeEncodingError|PickleError)$"),
    (
        "nccl_or_collective",
        r"^(?:Dist(?:Network|Store|Backend)?Error|Rendezvous\w+|WorkerGroupFailure\w*|Horovod\w+Error|NcclError"
        r"|DeadlockDetected\w*|DistributedOperation\w*)$",
    ),
    ("checkpoint_load_error", r"^InvalidProtobuf$"),
    ("file_not_found", r"^(?:DatasetNotFoundError|DataFilesNotFoundError|NoSuchFile|NoSuchKey)$"),
    (
        "config_error",
        r"^(?:MapFullError|ReadersFullError|InvalidParameterError|Elasticity\w+|ConfigException|UnregisteredEnv)$",
    ),
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
        r"|ExpatError|XMLSyntaxError|NoBackendError|DatasetGeneration\w*|DataLossError|MatReadError|NonMatching\w+"
        r"|ExpectedMoreSplits|UnexpectedSplits|CastError)$",
    ),
    ("shape_mismatch", r"(?:Shape|Dimension\w*|SizeMismatch|ShapeMismatch)Error$"),
    ("data_empty", r"(?:EmptyDataError|EmptyDataset\w*|NoDataError)$"),
    ("timeout", r"(?:TimeLimit\w*|DeadlineExceeded\w*|TimeoutExpired)$"),
    (
        "compile_error",
        r"(?:CompilationError|CompileError|InductorError|BackendCompilerFailed|TorchRuntimeError"
        r"|Dygraph2StaticException|Dy2StaticError|DataDependentOutput\w+|DynamicOutputShape\w+|PTXASError"
        r"|CompileException|DistutilsPlatformError|DistutilsExecError|LinkError)$",
    ),
)
_HABITS = (
    (
        "other",
        r"^(?:gaierror|SSLCertVerificationError|RemoteDisconnected|ServerDisconnectedError|Client\w+Error"
        r"|ConnectError|\w+ProtocolError|NewConnectionError|EndpointConnectionError|NoCredentialsError|CommError"
        r"|FileURLRetrievalError|FileDownloadError|HfHubHTTPError|LocalEntryNotFoundError|OfflineModeIsEnabled"
        r"|GitCommandError|ServerConnectionError|Connection(?:Refused|Aborted)Error|RpcError|_InactiveRpcError)$",
    ),
    ("file_not_found", r"^(?:RepositoryNotFoundError|RevisionNotFoundError|EntryNotFoundError|HFValidationError)$"),
    ("permission_error", r"^GatedRepoError$"),
    ("dataloader_worker_died", r"^BrokenPipeError$"),
    ("checkpoint_load_error", r"^(?:UnpicklingError|CheckpointException)$"),
    ("data_decode_error", r"^Arrow(?:Invalid|TypeError)$"),
    ("config_error", r"^(?:InvalidURL|MissingSchema|NameNotFound|NamespaceNotFound|VersionNotFound)$"),
    ("unsupported_op", r"^(?:NotImplemented|EPFail)$"),
)
"""What classes stand for that carry sentences of many kinds: asked only where the sentence tells nothing."""
_OF_MODULES = tuple((family, re.compile(pattern)) for family, pattern in _MODULES)
_OF_NAMES = tuple((family, re.compile(pattern)) for family, pattern in _NAMES)
_BY_HABIT = tuple((family, re.compile(pattern)) for family, pattern in _HABITS)
_OF_RUNTIME = re.compile(r"^onnxruntime\b")
"""Its classes are those of all its checks, of shapes and types as of operators."""
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


def family_by_habit(module: str, name: str) -> str | None:
    """The family that a class mostly stands for, or `None`; what its sentence says comes before.

    Args:
        module: Of the class, "" where it is not known.
        name: Of the class.
    """
    family = next((family for family, asks in _BY_HABIT if asks.search(name)), None)
    return family or ("unsupported_op" if _OF_RUNTIME.match(module) else None)


def is_general(name: str) -> bool:
    """Whether it is a class of Python that pages read by its own message: no wording of settings or data decides it."""
    return _GENERAL.match(name) is not None
