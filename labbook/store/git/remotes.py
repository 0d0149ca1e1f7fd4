"""Addresses of repositories without credentials."""

from __future__ import annotations

import re

_SCP_LIKE = re.compile(r"(?:[^/@\s]*@)?(\[[0-9a-fA-F:.]+\]|[^/:@\s]+):(?!//)(.*)", re.DOTALL)


def credential_free(address: str) -> str:
    """Return scheme, host and path of an address, without user, password, query and fragment.

    A folder stays a folder; the short form `git@host:path` becomes `ssh://host/path`. Source: security, section 5; a
    user name alone can be the token.
    """
    text = address.strip()
    # A transport helper such as `ext::program arguments`, whose address can be a command line.
    helper, double_colon, _ = text.partition("::")
    if double_colon and helper.isidentifier():
        return f"{helper}::"
    scheme, separator, rest = text.partition("://")
    if not separator:
        short = _SCP_LIKE.fullmatch(text)
        if short is None or text.startswith(("/", "./", "../", "~")):
            return text.partition("?")[0].partition("#")[0]
        scheme, rest = "ssh", f"{short[1]}/{short[2].lstrip('/')}"
    rest = rest.partition("?")[0].partition("#")[0]
    place, slash, path = rest.partition("/")
    host = place.rpartition("@")[2]
    if "@" in path:
        # A password may contain slashes; all text before the last "@" is removed.
        head, _, tail = path.rpartition("@")
        if ":" in place and "@" not in place and not place.rpartition(":")[2].isdigit():
            host, slash, path = tail.partition("/")
        elif ":" in head.rpartition("/")[2]:
            path = tail
    return f"{scheme}://{host}{slash}{path}"
