"""Applies the schema that `config_schema` names to the configuration of a run.

The schema is a JSON Schema file, or a dataclass of the program. A dataclass is read from its source file without
importing it, and only if the run itself has loaded that file: settings of a notebook run no code.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from labbook.model.message import Message, message
from labbook.model.run import ConfigFile, Run

_COMPOSED = ("hydra", "omegaconf", "tyro", "draccus", "jsonargparse")
_CONFIGURATIONS = ("yaml", "json", "toml")
_MAX_ERRORS = 8
_MAX_TEXT = 200
_TYPES: Mapping[str, Any] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    "Path": {"type": "string"},
    "dict": {"type": "object"},
    "list": {"type": "array"},
    "tuple": {"type": "array"},
}


def schema_errors(setting: str, root: Path, run: Run) -> Iterator[Message]:
    """Yields what does not agree with the schema, or why it could not be applied.

    Args:
        setting: Value of `config_schema`: a file relative to the notebook, or "module:Dataclass".
    """
    try:
        schema = _load_schema(setting, root, run)
    except (OSError, ValueError, SyntaxError) as error:
        yield message("configuration.schema.unreadable", schema=setting, reason=_shorten(error))
        return
    if schema is None:
        yield message("configuration.schema.not_found", schema=setting)
        return
    chosen = _configuration(run, setting)
    if chosen is None:
        yield message("configuration.schema.nothing", schema=setting)
        return
    try:
        import jsonschema
        import referencing
    except ImportError:
        yield message("configuration.schema.no_library", schema=setting)
        return
    name, values = chosen
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        validator.check_schema(schema)
        # An empty registry: a reference to another address is an error, nothing is fetched.
        found = sorted(validator(schema, registry=referencing.Registry()).iter_errors(values), key=_position)
    except jsonschema.SchemaError as error:
        yield message("configuration.schema.unreadable", schema=setting, reason=_shorten(error.message))
        return
    except Exception as error:
        yield message("configuration.schema.unreadable", schema=setting, reason=_shorten(error))
        return
    for one in found[:_MAX_ERRORS]:
        place = ".".join(str(part) for part in one.absolute_path)
        problem = _shorten(one.message)
        if place:
            yield message("configuration.schema.value", place=place, name=name, schema=setting, problem=problem)
        else:
            yield message("configuration.schema.whole", name=name, schema=setting, problem=problem)


def read_configuration(config: ConfigFile) -> dict[str, Any]:
    """Returns the values of a configuration file.

    Raises:
        ValueError: The text is cut, broken, or no mapping.
    """
    if config.truncated:
        raise ValueError("the recorded text is cut")
    values: Any
    if config.format == "yaml":
        from labbook.store.text.frontmatter import load_tagged

        values = load_tagged(config.text, str)
    elif config.format == "toml":
        from labbook.store.toml_parser import parse_toml

        values = parse_toml(config.text)
    elif config.format == "json":
        values = json.loads(config.text)
    else:
        raise ValueError(f"no types in {config.format}")
    if not isinstance(values, dict):
        raise ValueError("no mapping")
    return values


def _configuration(run: Run, setting: str) -> tuple[str, Any] | None:
    """Returns name and values of what is checked: the composed options, a file on the command line, the only file."""
    for parsed in run.arguments:
        if parsed.source in _COMPOSED:
            return parsed.source, parsed.values
    files = [config for config in run.configs if config.format in _CONFIGURATIONS]
    files = [config for config in files if not config.path.endswith(setting)]
    line = " ".join(run.argv)
    named = [config for config in files if Path(config.path).name in line]
    for config in named or (files if len(files) == 1 else []):
        with suppress(ValueError):
            return Path(config.path).name, read_configuration(config)
    for parsed in run.arguments:
        if parsed.source != "constants":
            return parsed.source, parsed.values
    return None


def _load_schema(setting: str, root: Path, run: Run) -> dict[str, Any] | None:
    module, colon, name = setting.partition(":")
    if not colon:
        found = json.loads((root / setting).read_text("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("a JSON Schema is an object")
        return found
    ending = "/" + module.replace(".", "/")
    for source in run.sources:
        path = Path(source).expanduser()
        if str(path).endswith((f"{ending}.py", f"{ending}/__init__.py")):
            classes = {n.name: n for n in ast.parse(path.read_text("utf-8")).body if isinstance(n, ast.ClassDef)}
            if name in classes:
                return _schema_of_class(name, classes, ())
    return None


def _schema_of_class(name: str, classes: Mapping[str, ast.ClassDef], above: tuple[str, ...]) -> dict[str, Any]:
    """Returns the JSON Schema of a dataclass or another class with annotated fields."""
    properties: dict[str, Any] = {}
    required: set[str] = set()
    known = True
    node = classes[name]
    for base in node.bases:
        other = _last_name(base)
        if other in classes and other not in above:
            inherited = _schema_of_class(other, classes, (*above, name))
            properties |= inherited["properties"]
            required |= set(inherited["required"])
            known = known and inherited["additionalProperties"] is False
        elif other not in ("object", "BaseModel", "Protocol", "Generic", "NamedTuple"):
            known = False
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            if _last_name(field.annotation) in ("ClassVar", "InitVar"):
                continue
            properties[field.target.id] = _schema_of_type(field.annotation, classes, (*above, name))
            (required.add if field.value is None else required.discard)(field.target.id)
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
        "additionalProperties": not known,
    }


def _schema_of_type(node: ast.expr, classes: Mapping[str, ast.ClassDef], above: tuple[str, ...]) -> dict[str, Any]:
    """Returns the schema of an annotation; that of anything, `{}`, where the type is not understood."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        with suppress(SyntaxError):
            return _schema_of_type(ast.parse(node.value, mode="eval").body, classes, above)
        return {}
    if isinstance(node, ast.Constant) and node.value is None:
        return dict(_TYPES["None"])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return {"anyOf": [_schema_of_type(part, classes, above) for part in (node.left, node.right)]}
    name = _last_name(node)
    if isinstance(node, ast.Subscript):
        parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Literal" and all(isinstance(part, ast.Constant) for part in parts):
            return {"enum": [part.value for part in parts if isinstance(part, ast.Constant)]}
        if name in ("Optional", "Union"):
            options = [_schema_of_type(part, classes, above) for part in parts]
            return {"anyOf": [*options, *([_TYPES["None"]] if name == "Optional" else [])]}
        if name in ("list", "List", "Sequence"):
            return {"type": "array", "items": _schema_of_type(parts[0], classes, above)}
        if name in ("dict", "Dict", "Mapping") and len(parts) == 2:
            return {"type": "object", "additionalProperties": _schema_of_type(parts[1], classes, above)}
        return {"type": "array"} if name in ("tuple", "Tuple") else {}
    if name in classes and name not in above:
        is_enum = any("Enum" in _last_name(base) for base in classes[name].bases)
        return {} if is_enum else _schema_of_class(name, classes, above)
    return dict(_TYPES.get(name, {}))


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _position(error: Any) -> list[str]:  # noqa: ANN401 - a jsonschema error
    return [str(part) for part in error.absolute_path]


def _shorten(problem: object) -> str:
    return " ".join(str(problem).split())[:_MAX_TEXT]
