"""Settings of running functions: constants, objects of settings, and nothing that stays alive for them."""


def test_constants_of_a_training_are_variables_that_are_assigned_once_to_a_literal(probed, python):
    probed.write("torch.py", "")
    probed.write(
        "train.py",
        "import sys, torch\n"
        "from argparse import REMAINDER\n"
        "block, rate = 8, -3e-3\n"
        "decay_iters: int = 4 * 50\n"
        "best, done, total = 0, False, 0\n"
        "for word in sys.argv[1:]:\n"
        "    name, value = word.split('=')\n"
        "    globals()[name] = int(value)\n"
        "for depth in (1, 2):\n"
        "    inner = 3\n"
        "    lr = depth * 0.9\n"
        "    total += depth\n"
        "def report():\n"
        "    global done\n"
        "    done = True\n"
        "def main(given=4, *, named=5):\n"
        "    mode = 'cosine'\n"
        "    given = 2\n"
        "    if given:\n"
        "        maybe = 1\n"
        "    best = max(total, 1)\n"
        "    sys._labbook_probe._look(1)\n"
        "main()\n",
    )
    done = probed(python, "train.py", "block=16")
    assert done.options("constants") == [{"mode": "cosine", "block": 16, "rate": -0.003, "decay_iters": 200, "best": 0}]


def test_variables_of_a_running_function_are_not_kept_alive(probed, python):
    probed.write(
        "train.py",
        "import sys, weakref\n"
        "class Batch: pass\n"
        "class Trainer:\n"
        "    def __init__(self): self.lr = 0.1\n"
        "    def fit(self):\n"
        "        config = {'depth': 3}\n"
        "        batch = Batch(); alive = weakref.ref(batch)\n"
        "        sys._labbook_probe._look(1)\n"
        "        del batch\n"
        "        print(alive())\n"
        "    def named(self):\n"
        "        kept = 4\n"
        "        mine = locals()\n"
        "        sys._labbook_probe._look(1)\n"
        "        print(mine['kept'])\n"
        "Trainer().fit()\n"
        "Trainer().named()\n",
    )
    done = probed(python, "train.py")
    assert done.out == "None\n4\n"
    assert done.options("dict") == [{"depth": 3}]


def test_settings_are_known_by_their_class_and_the_object_that_trains_by_its_method(probed, python):
    probed.write(
        "own.py",
        "class CfgNode:\n"
        "    def __init__(self, **fields): self.__dict__.update(fields)\n"
        "class Recipe:\n"
        "    def __init__(self): self.epochs = 3\n",
    )
    probed.write(
        "train.py",
        "import sys\n"
        "from own import CfgNode, Recipe\n"
        "class Loop:\n"
        "    def __init__(s, part): s.setup, s.other, s.batch_size = part, Recipe(), 8\n"
        "    def run(s):\n"
        "        sys._labbook_probe._look(1)\n"
        "def main(c):\n"
        "    Loop(c.loop).run()\n"
        "if __name__ == '__main__':\n"
        "    c = CfgNode(seed=3, loop=CfgNode(lr=0.5))\n"
        "    main(c)\n",
    )
    events = probed(python, "train.py").of("arguments")
    assert [(e["source"], e["name"], e["values"]) for e in events] == [
        ("dict", "setup", {"lr": 0.5}),
        ("attributes", "Loop", {"batch_size": 8}),
        ("dict", "c", {"seed": 3, "loop": {"lr": 0.5}}),
    ]


def test_attributes_of_a_settings_class_without_types_are_settings_too(probed, python):
    code = "import dataclasses\n@dataclasses.dataclass\nclass Training:\n    lr = 0.1\n    steps: int = 5\n"
    code += "config = Training()\n"
    probed.write("train.py", code)
    assert probed(python, "train.py").options("dict") == [{"lr": 0.1, "steps": 5}]


def test_a_row_of_results_is_none_of_settings(probed, python):
    probed.write("train.py", "best = {'lr': 0.1, 'hidden': 32, 'val_loss': 0.07}\ngiven = {'lr': 0.1, 'hidden': 8}\n")
    assert probed(python, "train.py").options("dict") == [{"lr": 0.1, "hidden": 8}]
