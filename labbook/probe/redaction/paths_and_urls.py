"""Personal paths and credentials in URLs: where somebody's name or password is part of an address."""

from .rules import rules_data

_NAME_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_SHARED_LOGINS = frozenset(["git", "hg", "svn", "anonymous", "anon", "ftp", "oauth2", "x-access-token"])

_EXAMPLES = frozenset(["user", "username", "login", "name", "pass", "password", "passwd", "pw", "secret", "token"])

_compiled = {}


class PathsAndUrls:
    """Finds the home folder, homes of others, the user's name in paths.

    Args:
        home: The user's home folder; empty when unknown.
        user: The user's login name; empty when unknown.
    """

    def __init__(self, home, user):
        home = (home or "").rstrip("/\\")
        self._home = home if len(home) > 3 and home.count("/") + home.count("\\") >= 1 else ""
        self._homes = _spellings(self._home)
        common = rules_data()["values"]["users_common"]
        self._user = user if len(user or "") >= 3 and user.lower() not in common and not user.isdigit() else ""
        self.gates = [
            "/home",
            "/users",
            "\\users",
            "/user/",
            "homes/",
            "nfshome",
            "2fhome",
            "2fuser",
            "-home-",
            "-users-",
        ]
        self.gates += [home.lower() for home in self._homes]
        if self._user:
            self.gates += [mark.format(self._user.lower()) for mark in ("/{}", "\\{}", "{}@", "2f{}", "~{}")]

    def spans(self, line):
        """Spans with their replacement: list of (start, end, rule, text)."""
        found = []
        for home in self._homes:
            start = line.find(home)
            while start >= 0:
                end = start + len(home)
                if _is_whole_path(line, start, end):
                    found.append((start, end, "home", "~"))
                start = line.find(home, end)
        if "others" not in _compiled:
            _compile()
        for match in _compiled["others"].finditer(line):
            start, end = match.span(match.lastgroup)
            end -= len(line[start:end]) - len(line[start:end].rstrip("."))
            if end > start and line[start:end].lower() not in ("shared", "public") and "[" not in line[start:end]:
                found.append((start, end, "user", "[USER]"))
        if self._user and self._user in line:
            found.extend(self._own_name(line))
        return found

    def _own_name(self, line):
        """The user's name as a segment of a path, before `@host` and after `~`."""
        found = []
        start = line.find(self._user)
        while start >= 0:
            end = start + len(self._user)
            before, after = line[max(0, start - 1) : start], line[end : end + 1]
            path = before in ("/", "\\", "~") or line[max(0, start - 3) : start].lower() == "%2f"
            segment = path and not _name_continues(line, end)
            login = after == "@" and before not in tuple(_NAME_CHARS + ".")
            if (segment and start > 0 and not _is_in_url(line, start)) or login:
                found.append((start, end, "user", "[USER]"))
            start = line.find(self._user, end)
        return found


def _spellings(home):
    """A home folder as it is in plain, JSON-escaped, percent-encoded and Windows text."""
    if not home:
        return ()
    if "\\" in home:
        return (home, home.replace("\\", "\\\\"), home.replace("\\", "/"))
    return (home, home.replace("/", "\\/"), home.replace("/", "%2F"), home.replace("/", "%2f"))


def _is_whole_path(line, start, end):
    """Whether the path at `start:end` is a whole one: no longer name, no folder of the same name elsewhere."""
    before = line[max(0, start - 1) : start]
    # `-I/home/x` and the last letter of an escape end before the path begins.
    joined = line[max(0, start - 2) : start - 1] in ("-", "\\") or line[start] == "%"
    if before in tuple(_NAME_CHARS + ".~/\\") and not joined and line[max(0, start - 7) : start] != "file://":
        return False
    return not _name_continues(line, end)


def _name_continues(line, end):
    """Whether the name that ends at `end` is only the beginning of a longer one."""
    after = line[end : end + 1]
    return after.isalnum() or after in ("_", "-") or (after == "." and line[end + 1 : end + 2].isalnum())


def _is_in_url(line, position):
    """Whether the word at `position` belongs to an `http` address: a name in one is public."""
    segment = line[max(0, position - 300) : position]
    scheme = segment.rfind("://")
    if scheme < 0 or segment[max(0, scheme - 4) : scheme] == "file":
        return False
    return not any(char in segment[scheme:] for char in " \t\"'<>,;")


def _compile():
    import re

    sep = r"(?:/{1,2}|\\{1,4}/?|%2[fF])"
    part = r"[^\s/\\:*?\"'<>|,;()\[\]{}$%&=`\x1b]"
    # A Windows folder may hold spaces; it ends at the next separator.
    name = r"(?P<user>" + part + r"{1,64}(?:(?<=[\w.])[ ]" + part + r"{1,32}(?=\\|[ ]\w{1,32}\\)){0,3})"
    begin = r"(?:(?<![\w.~/\\-])|(?<=\\[nrt])|(?<=file://)|(?<=%3[aAdD])|(?<=%2[27]))(?!(?<=:)//)"
    folders = r"(?:" + sep + r"[\w.+-]{1,64}){0,4}?" + sep
    absolute = r"(?:[A-Za-z]:|-[A-Za-z])?" + folders + r"(?:[hH]ome[0-9]?|[hH]omes|[uU]sers|nfshome)"
    # `/user/x` of a cluster's file system, but no folder `user` elsewhere; `home` even in a relative path.
    cluster = r"(?:hdfs://[\w.:-]{0,64}|afs:)?/user"
    relative = r"[\w.+-]{1,64}" + folders + r"[hH]ome"
    _compiled["others"] = re.compile(
        begin + r"(?:" + absolute + "|" + cluster + "|" + relative + r")" + sep + name
        + r"|(?<![A-Za-z0-9-])-(?:home|Users)-(?P<joined>[A-Za-z0-9_]{1,32})(?=-)"
    )  # fmt: skip
    _compiled["url"] = re.compile(r"://([^\s\"'<>`\x1f]{1,4096})")


def url_spans(line):
    """Where user names and passwords are in URLs: list of (start, end, rule, text)."""
    if "url" not in _compiled:
        _compile()
    found = []
    for match in _compiled["url"].finditer(line):
        rest = match.group(1)
        if "@" not in rest:
            continue
        following = rest.find("://")
        if following >= 0:
            rest = rest[:following]
        userinfo = _userinfo(rest)
        if userinfo and not _public_login(userinfo, rest[len(userinfo) + 1 :]):
            found.append((match.start(1), match.start(1) + len(userinfo), "url_userinfo", ""))
    return found


def _userinfo(rest):
    """What comes before the last `@` of the authority; a password may hold `/`, `#` and `@` unencoded."""
    authority = rest
    for stop in "/?":
        authority = authority.split(stop, 1)[0]
    if "@" in authority:
        userinfo = authority[: authority.rfind("@")]
        # The path may go on with the password: `user:p@ss/w0rd@host`.
        host = authority[len(userinfo) + 1 :]
        tail = rest[len(authority) :]
        if ":" in userinfo and "." not in host and "@" in tail and host.lower() != "localhost":
            return rest[: len(authority) + tail.rfind("@")]
        return userinfo
    host, colon, port = authority.partition(":")
    if colon and host and not port.isdigit() and "@" in rest and not port.endswith("]"):
        return rest[: rest.rfind("@")]
    return ""


def _public_login(userinfo, after):
    login, colon, password = userinfo.partition(":")
    if after[:7] == "sha256:" or "[REDACTED:" in userinfo or "[USER]" in userinfo or login[:1] == "[":
        return True
    if not colon:
        return login.lower() in _SHARED_LOGINS or login[:1] in ("$", "{", "%")
    masked = not password.strip("*xX.\u2022") or password[:1] in ("$", "{") or password.startswith("%(")
    example = login.lower() in _EXAMPLES and password.lower() in _EXAMPLES
    return example or (masked and len(login) <= 16)
