"""Protocol buffers and record files without the libraries that wrote them.

Source: protobuf.dev, "Encoding"; TensorFlow, `record_writer.h` (length, checksum, data, checksum); LevelDB,
`doc/log_format.md` (blocks of 32 KiB), which W&B and SwanLab use with a header of 7 bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_BLOCK = 32768
_MOST_RECORD_BYTES = 1 << 30
_MOST_CHECKED_BYTES = 1024
"""Largest record whose data are compared with their checksum, 0.2 ms. Source: chosen by us; a scalar has 50 bytes."""
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4

Value = int | bytes


def fields(message: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yields (field number, wire type, value) of a message; a value is an integer or bytes.

    Raises:
        ValueError: The bytes are no message.
    """
    place, end = 0, len(message)
    while place < end:
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = _varint(message, place)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, place = _varint(message, place)
        elif kind == FIXED64:
            size = 8
        elif kind == FIXED32:
            size = 4
        else:
            raise ValueError(f"wire type {kind} in a protocol buffer")
        if place + size > end or not number:
            raise ValueError("a field of a protocol buffer is longer than the message")
        yield number, kind, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(message) or shift > 63:
            raise ValueError("a number in a protocol buffer has no end")
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


class Message:
    """The fields of a message by number; a field that is missing or of another type has its default."""

    def __init__(self, data: bytes) -> None:
        self._values: dict[int, list[Value]] = {}
        for number, _, value in fields(data):
            self._values.setdefault(number, []).append(value)

    def has_field(self, number: int) -> bool:
        """Whether the message has the field."""
        return number in self._values

    def integer(self, number: int) -> int:
        """Returns a signed integer, 0 by default."""
        value = self._values.get(number, [0])[-1]
        return (value - (1 << 64) if value >= 1 << 63 else value) if isinstance(value, int) else 0

    def float32(self, number: int) -> float:
        """Returns a `float`, 0 by default."""
        value = self._values.get(number, [b""])[-1]
        return float(struct.unpack("<f", value)[0]) if isinstance(value, bytes) and len(value) == 4 else 0.0

    def float64(self, number: int) -> float:
        """Returns a `double`, 0 by default."""
        value = self._values.get(number, [b""])[-1]
        return float(struct.unpack("<d", value)[0]) if isinstance(value, bytes) and len(value) == 8 else 0.0

    def data(self, number: int) -> bytes:
        """Returns bytes or an encoded message, empty by default."""
        value = self._values.get(number, [b""])[-1]
        return value if isinstance(value, bytes) else b""

    def text(self, number: int) -> str:
        """Returns a text, "" by default; bytes that are not UTF-8 are replaced."""
        return self.data(number).decode("utf-8", "replace")

    def texts(self, number: int) -> list[str]:
        """Returns a repeated text."""
        return [value.decode("utf-8", "replace") for value in self.all_data(number)]

    def all_data(self, number: int) -> list[bytes]:
        """Returns repeated bytes."""
        return [value for value in self._values.get(number, ()) if isinstance(value, bytes)]

    def message(self, number: int) -> Message:
        """Returns a message in a field, an empty one by default."""
        return Message(self.data(number))

    def messages(self, number: int) -> list[Message]:
        """Returns the messages in a repeated field."""
        return [Message(value) for value in self.all_data(number)]

    def time(self, number: int) -> float:
        """Returns a `google.protobuf.Timestamp` in Unix seconds, 0 by default."""
        stamp = self.message(number)
        return stamp.integer(1) + stamp.integer(2) / 1e9


class RecordFile:
    """The records of a file, until its end or the first damaged record.

    Attributes:
        truncated: After reading: whether the file ends within a record, or a length in it is damaged.
        damaged: Number of records that were left out because their checksum does not match.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.truncated = False
        self.damaged = 0

    def checked_records(self) -> Iterator[bytes]:
        """Yields the records of a TensorBoard event file: length, checksum of the length, data, checksum.

        The checksum of the length shows a file of another kind and a lost place. That of the data is compared for the
        records of numbers; a picture has its own.
        """
        return self._iter_prefixed(12, 4)

    def iter_plain_records(self) -> Iterator[bytes]:
        """Yields the records of a VisualDL file: length, data."""
        return self._iter_prefixed(8, 0)

    def _iter_prefixed(self, head: int, tail: int) -> Iterator[bytes]:
        with self.path.open("rb") as stream:
            while True:
                header = stream.read(head)
                if not header:
                    return
                length = int.from_bytes(header[:8], "little")
                wrong = len(header) < head or length > _MOST_RECORD_BYTES
                if wrong or (head == 12 and _masked_checksum(header[:8]) != int.from_bytes(header[8:], "little")):
                    self.truncated = True
                    return
                data = stream.read(length + tail)
                if len(data) < length + tail:
                    self.truncated = True
                    return
                if tail and length <= _MOST_CHECKED_BYTES:
                    written = int.from_bytes(data[length:], "little")
                    if _masked_checksum(data[:length]) != written:
                        self.damaged += 1
                        continue
                yield data[:length] if tail else data

    def block_records(self) -> Iterator[bytes]:
        """Yields the records of a file of W&B or SwanLab: blocks of 32 KiB, long records in several parts."""
        with self.path.open("rb") as stream:
            header = stream.read(7)
            if len(header) < 7 or header[:1] != b":":
                self.truncated = 0 < len(header) < 7
                if len(header) == 7:
                    raise ValueError(f"{self.path} is no file of records")
                return
            block = stream.read(_BLOCK - 7)
            parts: list[bytes] = []
            while block:
                for kind, data, is_whole in self._parts(block):
                    if not is_whole:
                        self.damaged, parts = self.damaged + 1, []
                        continue
                    if kind in (_FULL, _FIRST):
                        parts = []
                    elif not parts:
                        continue  # the beginning of this record is damaged
                    parts.append(data)
                    if kind in (_FULL, _LAST):
                        yield b"".join(parts)
                        parts = []
                if self.truncated:
                    return
                block = stream.read(_BLOCK)
            self.truncated = bool(parts)

    def _parts(self, block: bytes) -> Iterator[tuple[int, bytes, bool]]:
        """Yields kind, data, and whether the checksum matches."""
        place = 0
        while len(block) - place >= 7:
            written, length, kind = struct.unpack_from("<IHB", block, place)
            if kind == 0 and length == 0:
                return  # the end of a block is filled with zeros
            if not _FULL <= kind <= _LAST or place + 7 + length > len(block):
                self.truncated = True
                return
            data = block[place + 7 : place + 7 + length]
            yield kind, data, zlib.crc32(data, zlib.crc32(bytes((kind,)))) == written
            place += 7 + length
        self.truncated = self.truncated or (len(block) - place > 0 and len(block) < _BLOCK - 7)


def _checksum_table() -> tuple[int, ...]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return tuple(table)


_TABLE = _checksum_table()


def checksum(data: bytes) -> int:
    """Returns the CRC-32C of some bytes. Source: RFC 3720, appendix B.4."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def _masked_checksum(data: bytes) -> int:
    value = checksum(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame_record(data: bytes) -> bytes:
    """Returns a record as it is in a TensorBoard event file."""
    length = len(data).to_bytes(8, "little")
    return b"".join(
        (length, struct.pack("<I", _masked_checksum(length)), data, struct.pack("<I", _masked_checksum(data)))
    )


def encode_message(*parts: tuple[int, int | float | bytes | str]) -> bytes:
    """Returns a message of (field number, value): a `float` is a double, an `int` a varint, text is UTF-8."""
    out = bytearray()
    for number, value in parts:
        if isinstance(value, float):
            out += _encoded_varint(number << 3 | FIXED64) + struct.pack("<d", value)
        elif isinstance(value, int):
            out += _encoded_varint(number << 3 | VARINT) + _encoded_varint(value & (1 << 64) - 1)
        else:
            data = value.encode("utf-8", "replace") if isinstance(value, str) else value
            out += _encoded_varint(number << 3 | BYTES) + _encoded_varint(len(data)) + data
    return bytes(out)


def _encoded_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
