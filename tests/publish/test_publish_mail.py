from __future__ import annotations

import socket

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message

from labbook.errors import LabbookError, UsageError
from labbook.publish.mail import MailServer, send_mail, server_named
from labbook.store.config import Config

pytestmark = pytest.mark.process


class Inbox(Message):
    def __init__(self):
        super().__init__()
        self.mails = []

    def handle_message(self, message):
        self.mails.append(message)


@pytest.fixture
def server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(Inbox(), hostname="127.0.0.1", port=port)
    controller.start()
    yield controller
    controller.stop()


def settings(port, **more):
    return Config(notify_smtp=f"smtp://127.0.0.1:{port}", notify_from="a@example.org", **more)


def test_a_report_arrives_as_text_and_as_a_page(server):
    send_mail(
        settings(server.port, notify_to=("b@example.org", "c@example.org")), "周报\nX", "- 损失", "<p>损失</p>", {}
    )
    (mail,) = server.handler.mails
    assert mail["To"] == "b@example.org, c@example.org"
    parts = [part.get_payload(decode=True).decode().strip() for part in mail.walk() if not part.is_multipart()]
    assert parts == ["- 损失", "<p>损失</p>"]


def test_the_mail_of_some_days_has_their_dates_and_the_number_of_runs(server, book, monkeypatch):
    named = {"NOTIFY_TO": "b@example.org", "NOTIFY_FROM": "a@b.c", "NOTIFY_SMTP": f"smtp://127.0.0.1:{server.port}"}
    for name, value in named.items():
        monkeypatch.setenv(f"LABBOOK_{name}", value)
    done = book("report", "--since", "2026-11-03", "--until", "2026-11-20", "--send")
    (mail,) = server.handler.mails
    (text, *_) = [part.get_payload(decode=True).decode() for part in mail.walk() if not part.is_multipart()]
    assert mail["Subject"].endswith(": Report 2026-11-03 – 2026-11-20") or "=?utf-8?" in mail["Subject"]
    assert text.strip() == "no runs" and done.stdout.startswith("2026-11-03 to 2026-11-20\n")


def test_no_password_is_sent_without_encryption(server):
    config = settings(server.port, notify_user="me", notify_to=("b@b.c",))
    with pytest.raises(LabbookError, match="no encryption"):
        send_mail(config, "x", "x", "x", {"LABBOOK_SMTP_PASSWORD": "secret"})
    assert server.handler.mails == []


def test_a_server_that_is_away_is_told():
    with pytest.raises(LabbookError, match=r"127\.0\.0\.1:9 did not take the mail"):
        send_mail(settings(9, notify_to=("b@example.org",)), "x", "x", "x", {})


@pytest.mark.parametrize("address", ["", "mail.example.org", "http://mail.example.org", "smtp://", "smtp://h:99999"])
def test_an_address_that_is_no_server_is_refused(address):
    with pytest.raises(UsageError, match="no mail server"):
        server_named(address)


def test_an_address_names_server_and_user():
    assert server_named("smtps://mail.x.org", "me@x.org") == MailServer("mail.x.org", 465, "me@x.org", True)
    with pytest.raises(UsageError, match="password"):
        server_named("smtps://me:secret@mail.x.org")
    with pytest.raises(UsageError, match="nobody"):
        send_mail(settings(25), "x", "x", "x", {})
