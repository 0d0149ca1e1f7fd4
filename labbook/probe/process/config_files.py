"""Records the text of configuration files that the program opens, if they are small and belong to the project.

A runtime file is no configuration: a server writes it for its clients, with its address and its key (the
connection file of a Jupyter kernel, `jpserver-1.json`, the client file of an ipyparallel controller). It is recognised
by its folder or by its content, and its text is never written.
"""

import os
import stat
import sys

from ..events import protocol

_FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml", ".ini": "ini", ".cfg": "ini"}
_MOST = 40
_WITHHELD = ("secret", "credential", "passw", "token", "kaggle.json", ".env", "private", "service_account", "id_rsa")
_NOT_CONFIGURATION = (
    "package.json",
    "package-lock.json",
    "vocab.json",
    "special_tokens_map",
    "tokenizer",
    ".index.json",
    "trainer_state.json",
    "_results.json",
)
RUNTIME_FOLDERS = ("/jupyter/runtime/", "/Jupyter/runtime/", "/security/ipcontroller-", "/security/ipengine-")
"""Parts of the paths of runtime files, in addition to the folder in `JUPYTER_RUNTIME_DIR`."""
_KEYS = ("key", "exec_key", "token")


def is_runtime_text(text):
    """Whether a JSON text looks like a runtime file: with an address of a running process, or its message key.

    Source: `jupyter_client.connect.write_connection_file`, `jupyter_server.serverapp.ServerApp.server_info`,
    `ipyparallel.apps.ipcontrollerapp.IPController.save_connection_dict`. No configuration contains a process id.
    """
    if '"signature_scheme"' not in text and '"pid"' not in text and '_port"' not in text:
        return False
    import json

    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return '"signature_scheme"' in text
    if not isinstance(facts, dict):
        return False
    ports = [name for name in facts if name.endswith("_port")]
    has_key = any(name in facts for name in _KEYS)
    is_server = isinstance(facts.get("pid"), int) and any(name in facts for name in ("port", "url", "sock", "address"))
    return is_server or (has_key and ("signature_scheme" in facts or len(ports) > 1))


class ConfigFiles:
    """Records each configuration file once.

    Attributes:
        reading: Whether the probe itself is opening a file now.
    """

    def __init__(self, probe):
        self._probe = probe
        self._limit = int(probe.settings.get("config_max_bytes") or 64 * 1024)
        self._folder = os.path.realpath(os.getcwd()) + os.sep
        self._seen = set()
        self.reading = False
        again = {"fork": lambda: self._seen.update(range(_MOST)), "python": self._seen.clear}
        probe.after_fork(lambda: again.get(probe.role, bool)())

    def on_open(self, path):
        """Write the text of the file at a resolved path, if it is a configuration file of this project.

        A JSON file above the size limit may be a data set and is omitted; other formats are cut.
        """
        kind = _FORMATS.get(os.path.splitext(path)[1].lower())
        if kind is None or path in self._seen or len(self._seen) >= _MOST:
            return
        name = os.path.basename(path).lower()
        if any(word in name for word in _WITHHELD + _NOT_CONFIGURATION) or not self._is_of_project(path):
            return
        self._seen.add(path)
        self.reading = True
        try:
            data = self._read(path, kind)
        finally:
            self.reading = False
        if data is None:
            return
        text = data[: self._limit].decode("utf-8", "replace")
        if kind == "json" and (not text.lstrip("\ufeff \t\r\n").startswith("{") or is_runtime_text(text)):
            return
        self._probe.event(protocol.CONFIG, path=path, format=kind, text=text, truncated=len(data) > self._limit)

    def _is_of_project(self, path):
        if path.startswith(self._folder):
            return True
        return any(
            path == os.path.realpath(part) for word in sys.argv[1:] for part in (word, word.partition("=")[2]) if part
        )

    def _read(self, path, kind):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode) or facts.st_size == 0:
                return None
            if kind == "json" and facts.st_size > self._limit:
                return None
            return os.read(descriptor, self._limit + 1)
        finally:
            os.close(descriptor)
