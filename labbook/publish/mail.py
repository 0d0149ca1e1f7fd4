"""Sends a document by mail, through the mail server that the settings name. Nothing is sent unless asked for."""

from __future__ import annotations

import netrc
import os
import smtplib
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from urllib.parse import urlsplit

from labbook.errors import LabbookError, UsageError
from labbook.frozen import dataclass
from labbook.store.config import Config

PASSWORD = "LABBOOK_SMTP_PASSWORD"
_TIMEOUT_S = 30
_PORTS = {"smtp": 587, "smtps": 465}


@dataclass(frozen=True)
class MailServer:
    """A mail server.

    Args:
        user: The account, "" for none.
        encrypted: Whether the connection is encrypted from the start; else it is as soon as the server offers it.
    """

    host: str
    port: int
    user: str = ""
    encrypted: bool = False


def send_mail(config: Config, subject: str, text: str, page: str, environ: Mapping[str, str] | None = None) -> None:
    """Sends a page to the people in the settings.

    Args:
        config: `notify_to`, `notify_from`, `notify_smtp` and `notify_user` are used.
        text: The mail for programs that show no HTML.
        page: The mail as HTML.
        environ: Has the password in `LABBOOK_SMTP_PASSWORD`; else it is in `~/.netrc`.

    Raises:
        UsageError: The settings name no server, nobody to send to, or no sender.
        LabbookError: The server is not reached or refuses the mail.
    """
    server = server_named(config.notify_smtp, config.notify_user)
    if not config.notify_to:
        raise UsageError("errors.mail.nobody")
    sender = config.notify_from or (server.user if "@" in server.user else "")
    if not sender:
        raise UsageError("errors.mail.no_sender")
    mail = EmailMessage()
    try:
        mail["Subject"], mail["From"], mail["To"] = " ".join(subject.split()), sender, ", ".join(config.notify_to)
    except ValueError as error:
        raise UsageError("errors.mail.bad_address", reason=error) from error
    mail["Date"], mail["Message-ID"] = formatdate(localtime=True), make_msgid(domain="labbook.invalid")
    mail.set_content(text)
    mail.add_alternative(page, subtype="html")
    password = _password(server, os.environ if environ is None else environ)
    try:
        with _connect(server) as connection:
            if server.user:
                connection.login(server.user, password)
            refused = connection.send_message(mail)
    except (OSError, smtplib.SMTPException) as error:
        raise LabbookError(
            "errors.mail.not_taken", host=server.host, port=str(server.port), reason=_reason(error), password=PASSWORD
        ) from error
    if refused:
        raise LabbookError("errors.mail.refused", refused=list(refused))


def server_named(address: str, user: str = "") -> MailServer:
    """Returns the server of an address such as `smtps://mail.example.org:465`.

    Raises:
        UsageError: The address is empty, no address of a mail server, or has a user.
    """
    parts = urlsplit(address)
    try:
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        port = 0
    if parts.scheme not in _PORTS or not parts.hostname or not port:
        raise UsageError("errors.mail.bad_server" if address else "errors.mail.no_server", address=address)
    if "@" in parts.netloc:
        raise UsageError("errors.mail.password_in_settings", password=PASSWORD)
    return MailServer(parts.hostname, port, user, parts.scheme == "smtps")


def _connect(server: MailServer) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if server.encrypted:
        return smtplib.SMTP_SSL(server.host, server.port, timeout=_TIMEOUT_S, context=context)
    connection = smtplib.SMTP(server.host, server.port, timeout=_TIMEOUT_S)
    connection.ehlo()
    if connection.has_extn("starttls"):
        connection.starttls(context=context)
        connection.ehlo()
    elif server.user:
        connection.close()
        raise smtplib.SMTPNotSupportedError("it offers no encryption, so no password is sent; use smtps://")
    return connection


def _password(server: MailServer, environ: Mapping[str, str]) -> str:
    if environ.get(PASSWORD):
        return environ[PASSWORD]
    try:
        known = netrc.netrc().authenticators(server.host)
    except (OSError, netrc.NetrcParseError):
        return ""
    return (known[2] or "") if known else ""


def _reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        answer = (
            error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else error.smtp_error
        )
        return f"{error.smtp_code} {answer}"[:200]
    return str(getattr(error, "strerror", None) or error)[:200]
