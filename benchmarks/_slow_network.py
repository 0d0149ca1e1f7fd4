"""A git daemon on this machine behind a relay that delays each packet, as a network does."""

import asyncio
import contextlib
import subprocess
import threading
import time

from benchmarks._git_servers import free_port, wait_for_port


async def _delayed(reader, writer, delay_s):
    """Copies a stream; each piece leaves `delay_s` after it came, and pieces do not wait for each other."""
    pieces = asyncio.Queue()

    async def read():
        while True:
            piece = await reader.read(65536)
            await pieces.put((time.monotonic() + delay_s, piece))
            if not piece:
                return

    reading = asyncio.create_task(read())
    with contextlib.suppress(ConnectionError):
        while True:
            due, piece = await pieces.get()
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if not piece:
                break
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    await reading


async def _relay(port, target, delay_s, is_ready):
    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.sleep(2 * delay_s)  # the handshake of a connection takes a round trip
        both = (_delayed(reader, far_writer, delay_s), _delayed(far_reader, writer, delay_s))
        await asyncio.gather(*both, return_exceptions=True)
        for each in (writer, far_writer):
            each.close()

    async with await asyncio.start_server(serve, "127.0.0.1", port):
        is_ready.set()
        await asyncio.Event().wait()


@contextlib.contextmanager
def slow_git_daemon(round_trip_s):
    """Yields the address before the absolute path of any repository of this machine."""
    target, port = free_port(), free_port()
    options = ["--export-all", "--enable=receive-pack", "--base-path=/", "--listen=127.0.0.1", "--reuseaddr"]
    daemon = subprocess.Popen(["git", "daemon", *options, f"--port={target}", "/"], start_new_session=True)
    is_ready = threading.Event()
    work = _relay(port, target, round_trip_s / 2, is_ready)
    threading.Thread(target=asyncio.run, args=(work,), daemon=True).start()
    is_ready.wait(10)
    wait_for_port(target)
    try:
        yield f"git://127.0.0.1:{port}"
    finally:
        daemon.terminate()
        daemon.wait()
