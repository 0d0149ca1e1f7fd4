"""Children that were ended by a signal are named; those that their parent ended itself are not."""

PROGRAM = """
import ctypes, multiprocessing, os, signal, time
def faults(): ctypes.string_at(0)
def killed(): os.kill(os.getpid(), signal.SIGKILL)
def waits(): time.sleep(20)
def fails(): raise SystemExit(3)
if __name__ == "__main__":
    fork = multiprocessing.get_context(METHOD)
    children = [fork.Process(target=target) for target in (faults, killed, waits, fails)]
    for child in children: child.start()
    time.sleep(0.3)
    children[2].terminate()
    for child in children: child.join()
    print([child.exitcode for child in children])
"""


def test_children_that_died_are_named(probed, python):
    for method in ("fork", "spawn"):
        probed.write("parent.py", PROGRAM.replace("METHOD", repr(method)))
        plain = probed.plain(python, "parent.py")
        done = probed(python, "parent.py")
        assert done.out == plain.stdout == "[-11, -9, -15, 3]\n"
        seen = sorted((event["target"], event["signal"]) for event in done.of("child_died"))
        assert seen == [("faults", "SIGSEGV"), ("killed", "SIGKILL")]
        assert all(
            event["name"].startswith(("Process-", "ForkProcess-", "SpawnProcess-")) for event in done.of("child_died")
        )
        assert not done.of("probe_error")
