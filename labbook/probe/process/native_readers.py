"""Wraps readers and writers in C, which raise no `open` audit event, after their import."""

import os

from .. import wrapping

_FUNCTIONS = (
    # module, function or Class.method, position of the path, its name, access ("mode" names an argument)
    ("h5py._hl.files", "File.__init__", 1, "name", "mode"),
    ("safetensors.torch", "load_file", 0, "filename", "r"),
    ("safetensors.torch", "save_file", 1, "filename", "w"),
    ("safetensors.numpy", "load_file", 0, "filename", "r"),
    ("safetensors.numpy", "save_file", 1, "filename", "w"),
    ("safetensors.paddle", "load_file", 0, "filename", "r"),
    ("safetensors.paddle", "save_file", 1, "filename", "w"),
    ("torch.serialization", "save", 1, "f", "w"),
    ("torch.jit._script", "RecursiveScriptModule.save", 1, "f", "w"),
    ("torch.jit._serialization", "save", 1, "f", "w"),
    ("torch.jit._serialization", "load", 0, "f", "r"),
    ("torch.export.pt2_archive._package", "package_pt2", 0, "f", "w"),
    ("torch.export.pt2_archive._package", "load_pt2", 0, "f", "r"),
    ("tokenizers", "Tokenizer.save", 1, "path", "w"),
    ("tokenizers", "Tokenizer.from_file", 0, "path", "r"),
    ("sentencepiece", "SentencePieceProcessor.LoadFromFile", 1, "arg", "r"),
    ("soundfile", "SoundFile.__init__", 1, "file", "mode"),
    ("pyarrow.parquet.core", "read_table", 0, "source", "r"),
    ("pyarrow.parquet.core", "ParquetFile.__init__", 1, "source", "r"),
    ("pyarrow.parquet.core", "ParquetWriter.__init__", 1, "where", "w"),
    ("cv2", "imread", 0, "filename", "r"),
    ("cv2", "imreadmulti", 0, "filename", "r"),
    ("cv2", "imwrite", 0, "filename", "w"),
    ("torchvision.io.image", "read_file", 0, "path", "r"),
    ("torchvision.io.image", "write_file", 0, "filename", "w"),
    ("decord.video_reader", "VideoReader.__init__", 1, "uri", "r"),
    ("pandas.io.parquet", "read_parquet", 0, "path", "r"),
    ("paddle.base.core", "serialize_pir_program", 1, "file_path", "w"),
    ("paddle.base.core", "deserialize_pir_program", 0, "file_path", "r"),
    ("paddle.base.core", "save_combine_func", 2, "file_path", "w"),
    ("paddle.base.core", "load_combine_func", 0, "file_path", "r"),
)


def watch(probe, opened, overwriting):
    """Call `opened(path, mode, flags)` for each file passed to one of these functions.

    Before one that writes, `overwriting(path)` is called: afterwards the bytes that were there are gone.
    """
    for row in _FUNCTIONS:
        probe.watch(row[0], _wrapping(probe, opened, overwriting, row))


def _wrapping(probe, opened, overwriting, row):
    def wrap(module):
        _, name, position, keyword, how = row
        owner = module
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)

        def path_and_mode(args, kwargs):
            given = args[position] if len(args) > position else kwargs.get(keyword)
            mode = how
            if how == "mode":
                mode = (args[position + 1] if len(args) > position + 1 else kwargs.get("mode")) or "r"
            is_path = isinstance(given, (str, bytes)) or hasattr(given, "__fspath__")
            return (os.fspath(given) if is_path else None), mode

        def before(args, kwargs):
            path, mode = path_and_mode(args, kwargs)
            if path is not None and mode != "r":
                overwriting(path)

        def after(result, args, kwargs):
            path, mode = path_and_mode(args, kwargs)
            if path is not None:
                opened(path, mode, 0)

        original = getattr(owner, last)
        wrapped = wrapping.wrap_function(original, probe.guard("reader " + name), before=before, after=after)
        # A constructor in C, as `Tokenizer.from_file`, gets no `self`.
        setattr(owner, last, staticmethod(wrapped) if path and type(original) is type(len) else wrapped)

    return wrap
