"""Git servers on this machine, as teams have them: OpenSSH, and smart HTTP by git's own `http-backend`."""

import contextlib
import os
import shutil
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def free_port():
    """Returns a port that nothing listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for_port(port):
    """Waits until something listens on a port, five seconds at most."""
    for _ in range(100):
        with socket.socket() as one:
            if not one.connect_ex(("127.0.0.1", port)):
                return
        time.sleep(0.05)


class _GitOverHttp(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, _, query = self.path.partition("?")
        body = self._read_body()
        environ = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": "wei",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.receivepack",
            "GIT_CONFIG_VALUE_0": "true",
        }
        out = subprocess.run(["git", "http-backend"], input=body, env=environ, capture_output=True, check=False).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def _read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def http_git_server(folder):
    """Serves the repositories in a folder; yields the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _GitOverHttp)
    server.folder = folder
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def find_sshd():
    """Returns the program of the OpenSSH server, or `None` if it or its client is not installed."""
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    return server if shutil.which("ssh") else None


@contextlib.contextmanager
def ssh_server(folder):
    """An OpenSSH server of this user with its keys in a new folder; yields the port and git's ssh command for it."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # root's sshd wants a folder for its unprivileged child
    port = free_port()
    folder.mkdir(mode=0o700)
    for name in ("host", "id_ed25519"):
        make_key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make_key, check=True)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/id_ed25519.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n"
    )
    client = f"ssh -F /dev/null -i {folder}/id_ed25519 -o UserKnownHostsFile={folder}/known_hosts -o BatchMode=yes"
    command = [find_sshd(), "-D", "-e", "-f", str(folder / "sshd_config")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    wait_for_port(port)
    try:
        yield port, client
    finally:
        process.terminate()
        process.wait()
