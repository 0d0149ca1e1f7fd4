"""The order of the collective calls of all ranks, which is compared when they hang."""

from types import SimpleNamespace

from labbook.probe.torch.collectives import Collectives


class Group:
    """A group of some ranks."""


def test_calls_of_all_ranks_are_counted_in_order_and_no_others():
    monitor = SimpleNamespace(thread=None, skipping=True, dense=False, probe=SimpleNamespace())
    torch = SimpleNamespace(distributed=SimpleNamespace(ProcessGroup=Group))
    collectives = Collectives(torch, SimpleNamespace(monitor=monitor))
    calls = {}
    inside = {"broadcast": lambda: calls["barrier"]()}
    for name in ("all_reduce", "broadcast", "barrier", "send"):
        original = lambda *args, name=name, **kwargs: inside.get(name, int)()  # noqa: E731
        calls[name] = collectives._wrap(name, original, lambda: False)

    calls["all_reduce"](1)
    calls["all_reduce"](1, group=Group())
    calls["all_reduce"](1, "sum", Group())
    calls["send"](1)
    calls["broadcast"](1, src=0)
    assert collectives.order() == {"made": 2, "last": ["all_reduce", "broadcast"]}
