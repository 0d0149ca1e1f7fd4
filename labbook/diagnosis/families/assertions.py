"""The family of an `assert` whose message says nothing: what its line compares."""

from __future__ import annotations

import re

from labbook.model.evidence import ObservedException

_COMPARES = re.compile(r"[=!<>]=|[<>]|\bin\b|%")
_SETTING = (
    r"\b(?:self\.)?(?:args?|opts?|cfg|config|conf|hparams|hyp|FLAGS|hps|params|exp)(?:\.|\[['\"])\w+"
    r"|\b(?:batch_?size|num_heads?|n_heads?|embed_dim|img_?size|patch_size|window_size|world_size|num_gpus|n_?gpus?"
    r"|num_workers|num_classes|n_classes|epochs|dataset_name|dataset|mode|phase|split|backbone|optimizer|arch"
    r"|model_name"
    r"|model_type|norm_type|loss_type|activation|backend|device)\b"
)
_LINES = (
    ("index_out_of_range", r"(?<!num_)(?<!n_)(?:labels?|targets?|class_ids?)['\"\]]*(?:\.\w+\(\))?\s*<=?\s*\w"),
    ("nan_or_inf", r"\bis_?(?:nan|inf|finite)\b|isnan|isinf|isfinite"),
    (
        "file_not_found",
        r"\bos\.path\.(?:exists|isfile|isdir|lexists)\(|\bosp?\.(?:exists|isfile|isdir)\(|\.(?:exists|is_file"
        r"|is_dir)\(",
    ),
    ("cuda_driver_mismatch", r"cuda\.is_available\(|is_compiled_with_cuda\("),
    (
        "data_empty",
        r"\blen\([\w.\[\]]+\)\s*(?:>\s*0|!=\s*0|>=\s*1)\b"
        r"|(?<![\w.])(?:data_?|dataset_?|sample_?)?(?:size|length|len|total|count)\s*>\s*0\b"
        r"|^assert\s?\(?(?:self\.)?\w*(?:dataset|data|samples|images|imgs|files|filenames|paths|roidb|annotations"
        r"|image_list|file_list|ids)\)?\s*(?:,|$)"
        r"|\b(?:num_samples|n_samples|num_images|nf|num_files|n_files)\s*(?:>\s*0|!=\s*0|>=\s*1)",
    ),
    (
        "data_decode_error",
        r"\b(?:boxes|bboxes|bbox|box|gt_boxes|labels?|l)\b\S*\[[^\]]*\]\s*(?:[<>]=?).*\.all\(|\bbox\w*\.(?:min|max)\("
        r"|\blen\((?:line|row|parts?|items?|fields?|tokens?|words|cols?|splits?)\)\s*[=!<>]=",
    ),
    (
        "data_decode_error",
        r"(?<![A-Za-z])(?:(?:x_?(?:min|1|0))\b.{0,12}<.{0,12}\b(?:x_?(?:max|2|1))|(?:y_?(?:min|1|0))\b.{0,12}<.{0,12}"
        r"\b(?:y_?(?:max|2|1))|(?:x_?(?:max|2))\b.{0,12}>.{0,12}\b(?:x_?(?:min|1))|(?:y_?(?:max|2))\b.{0,12}>.{0,12}"
        r"\b(?:y_?(?:min|1)))\b",
    ),
    ("data_decode_error", r"(?:\.|torch\.|np\.|\b)(?:min|max|amin|amax)\(.*[<>]=?\s*[-\w.]+"),
    ("type_error_user_code", r"^assert (?:not )?(?:isinstance|callable|hasattr|issubclass)\("),
    ("config_error", rf"(?:{_SETTING})[^=!<>]{{0,40}}?\bin\b\s*[\[({{'\"\w]"),
    (
        "config_error",
        r"['\"]\w+['\"] (?:not )?in (?:self\.)?(?:\w+\.)*\w*(?:cfg|config|conf|args|opts?|policy|hparams"
        r"|settings?|hyp)\w*\b"
        r"|\blen\((?:self\.)?(?:\w+\.)*\w*(?:loaders|workflow|cfg|configs?|optimi[sz]ers|schedulers|hooks"
        r"|gpus|devices|CLASSES)\)",
    ),
    ("dtype_mismatch", r"\.dtype\b|\bis_floating_point\("),
    ("device_mismatch", r"\.device\b|\.is_cuda\b"),
    ("config_error", r"(?:\bargs?|\bopts?|\bcfg|\bconfig|\bhparams|\bFLAGS)\.\w+"),
    ("config_error", r"\w\[['\"]\w+['\"]\]\s*[=!<>]=?\s*\w+(?:\.\w+)*\[['\"]"),
    ("config_error", r"(?:==|!=)\s*['\"][\w./ -]*['\"]"),
    ("config_error", r"%\s*[\w.]+\s*==\s*0|\bin\s*[\[(]\s*['\"]"),
    (
        "shape_mismatch",
        r"\.shape\b|\.size\(|\.ndim\b|\.dim\(|\blen\([^)]*\).*[=!]=.*\blen\(|_shape\b|\bshape_|_dim\b"
        r"|\bchan(?:nel)?s?\b|_channels?\b",
    ),
)
"""What the line of an `assert` asks for, most telling first."""
_TWO_COUNTS = re.compile(r"^\W{0,2}[A-Za-z_]\w*: ?(\d+),? (?:and |vs\.? )?[A-Za-z_]\w*: ?(?!\1\b)\d+\W{0,2}$")
_ASKS = tuple((family, re.compile(pattern)) for family, pattern in _LINES)


def family_of_assert(raised: ObservedException, sentence: str) -> str | None:
    """The family of an `assert`, or `None` where its line tells nothing.

    Args:
        raised: Any exception.
        sentence: Its message on one line.
    """
    if raised.type != "AssertionError":
        return None
    source = raised.frames[-1].source if raised.frames else ""
    if _TWO_COUNTS.match(sentence):
        return "shape_mismatch"
    for line in (sentence, source):
        if line.startswith("assert") or (line is sentence and _COMPARES.search(line)):
            family = next((family for family, asks in _ASKS if asks.search(line)), None)
            if family or line is source:
                return family
    return None
