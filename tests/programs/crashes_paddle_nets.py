"""The small networks of the PaddlePaddle faults."""

import warnings

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.io import Dataset

warnings.filterwarnings("ignore")
paddle.seed(7)


class Perceptron(nn.Layer):
    def __init__(self, inputs=20, hidden=12, classes=5):
        super().__init__()
        self.body = nn.Linear(inputs, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, x):
        return self.head(F.relu(self.body(x)))


class Numbers(Dataset):
    """Samples that a function makes."""

    def __init__(self, make, length=8):
        super().__init__()
        self.make, self.length = make, length

    def __getitem__(self, index):
        return self.make(index)

    def __len__(self):
        return self.length


def whole(*shape, high=5):
    return paddle.randint(0, high, shape)
