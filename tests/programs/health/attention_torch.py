"""Faults of an attention that a program computes itself, in PyTorch: `attention_torch.py PROGRAM [fixed]`."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

WORDS, LENGTH, WIDTH, HEADS = 14, 20, 32, 4


class Attention(nn.Module):
    """Heads are split off and joined by a new shape alone where `mixed`; `diagonal` begins what a query may not see."""

    def __init__(self, mixed=False, diagonal=None):
        super().__init__()
        self.parts, self.last = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mixed, self.diagonal = mixed, diagonal

    def split(self, x):
        if self.mixed:
            return x.reshape(len(x), HEADS, LENGTH, WIDTH // HEADS)
        return x.reshape(len(x), LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)

    def forward(self, x):
        query, key, value = (self.split(one) for one in self.parts(x).chunk(3, -1))
        scores = query @ key.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)
        if self.diagonal is not None:
            hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(self.diagonal)
            scores = scores.masked_fill(hidden, -1e9)
        seen = scores.softmax(-1) @ value
        return self.last((seen if self.mixed else seen.transpose(1, 2)).reshape(x.shape))


class LateMask(Attention):
    """Hides later words behind the softmax, and divides the weights by their sum."""

    def forward(self, x):
        query, key, value = (self.split(one) for one in self.parts(x).chunk(3, -1))
        mask = torch.ones(LENGTH, LENGTH).tril()
        weights = (query @ key.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)).softmax(-1)
        weights = weights * mask
        weights /= weights.sum(-1, keepdim=True)
        return self.last((weights @ value).transpose(1, 2).reshape(x.shape))


class LayerNorm(nn.Module):
    """A normalisation of the program, with a mean that is `shift` too low."""

    def __init__(self, shift):
        super().__init__()
        self.gain, self.bias, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH)), shift

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True) + self.shift
        return self.gain * centred / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt() + self.bias


class Model(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.share = 1.0
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.attention, self.norm, self.scores = attention, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, x):
        x = self.words(x) + self.share * self.places(torch.arange(LENGTH))
        return self.scores(self.norm(x + self.attention(x)))


def train(model, batch_of, steps=250):
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(steps):
        x, y = batch_of()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 24:
            print(f"step {step + 1} loss {loss.item():.4f}")


def shifted_words():
    """Each word is to become the one two places before it."""
    x = torch.randint(0, WORDS, (32, LENGTH))
    return x, x.roll(2, 1)


def heads_take_the_place_of_time(broken):
    torch.manual_seed(1)
    train(Model(Attention(mixed=broken)), shifted_words)


def mask_without_its_diagonal(broken):
    """Sequences count up by a step of their own: the next word follows from the two before it."""
    torch.manual_seed(2)

    def batch_of():
        first, step = torch.randint(0, WORDS, (2, 32, 1))
        x = (first + step * torch.arange(LENGTH + 1)) % WORDS
        return x[:, :-1], x[:, 1:]

    train(Model(Attention(diagonal=0 if broken else 1)), batch_of)


class Library(nn.Module):
    """The attention of the framework, with a mask of numbers, which is added to the scores."""

    def __init__(self, mask):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.register_buffer("mask", mask)

    def forward(self, x):
        return self.attention(x, x, x, attn_mask=self.mask, need_weights=False)[0]


def ones_added_to_the_scores(broken):
    """Sequences that count up, some words of which are replaced."""
    torch.manual_seed(3)
    ones = torch.ones(LENGTH, LENGTH)

    def batch_of():
        first, step = torch.randint(0, WORDS, (2, 32, 1))
        x = (first + step * torch.arange(LENGTH + 1)) % WORDS
        x = torch.where(torch.rand(x.shape) < 0.2, torch.randint(0, WORDS, x.shape), x)
        return x[:, :-1], x[:, 1:]

    train(Model(Library(ones.tril() if broken else ones.triu(1) * -1e9)), batch_of)


def norm_that_shifts(broken):
    torch.manual_seed(4)
    model = Model(Attention())
    model.norm = LayerNorm(2.0 if broken else 0.0)
    train(model, shifted_words)


class Norm(LayerNorm):
    """A normalisation of the program with its own `eps`."""

    def __init__(self, eps):
        super().__init__(0.0)
        self.eps = eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.gain * centred / (x.var(-1, keepdim=True, correction=0) + self.eps).sqrt() + self.bias


def norm_with_a_large_eps(broken):
    torch.manual_seed(8)
    model = Model(Attention())
    model.norm = Norm(100.0 if broken else 1e-6)
    train(model, shifted_words)


class Cached(Attention):
    """Joins each word to a cache in `forward(x, cache)`; `keep(name, joined)` is what the cache has afterwards."""

    def __init__(self, keep):
        super().__init__(diagonal=1)
        self.keep = keep

    def forward(self, x, cache=None):
        if cache is None:
            return super().forward(x)
        query, key, value = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.parts(x).chunk(3, -1))
        if cache:
            key, value = torch.cat([cache["key"], key], 2), torch.cat([cache["value"], value], 2)
        for name, joined in (("key", key), ("value", value)):
            cache[name] = self.keep(cache.get(name), joined)
        seen = (query @ key.transpose(-2, -1) / math.sqrt(WIDTH // HEADS)).softmax(-1) @ value
        return self.last(seen.transpose(1, 2).flatten(2))


class Generator(Model):
    def forward(self, x, cache=None, start=0):
        x = self.words(x) + self.places(torch.arange(start, start + x.shape[1]))
        return self.scores(self.norm(x + self.attention(x, cache)))

    @torch.no_grad()
    def write(self, prompt, words):
        self.eval()
        cache, text = {}, prompt
        scores = self(prompt, cache)
        for _ in range(words):
            text = torch.cat([text, scores[:, -1:].argmax(-1)], 1)
            scores = self(text[:, -1:], cache, text.shape[1] - 1)
        return text


def generate(keep):
    torch.manual_seed(9)

    def batch_of():
        first, step = torch.randint(0, WORDS, (2, 32, 1))
        x = (first + step * torch.arange(LENGTH + 1)) % WORDS
        return x[:, :-1], x[:, 1:]

    model = Generator(Cached(keep))
    train(model, batch_of)
    print(model.write(batch_of()[0][:4, :6], 8).tolist())


def cache_that_is_turned(broken):
    generate((lambda old, joined: joined.roll(1, 2)) if broken else (lambda old, joined: joined))


def cache_of_the_prompt_alone(broken):
    generate((lambda old, joined: joined if old is None else old) if broken else (lambda old, joined: joined))


def places_without_effect(broken):
    torch.manual_seed(5)
    model = Model(Attention())
    model.share = 0.0 if broken else 1.0
    train(model, shifted_words)


def mask_behind_the_softmax(broken):
    """Healthy: sequences count up by a step of their own, and the next word follows from the two before it."""
    torch.manual_seed(6)

    def batch_of():
        first, step = torch.randint(0, WORDS, (2, 32, 1))
        x = (first + step * torch.arange(LENGTH + 1)) % WORDS
        return x[:, :-1], x[:, 1:]

    train(Model(LateMask()), batch_of)


class FeedForward(nn.Module):
    """Two layers with a residual connection around them, and an activation between them or none."""

    def __init__(self, attention, activation):
        super().__init__()
        self.attention, self.activation = attention, activation
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm, self.dropout = nn.LayerNorm(WIDTH), nn.Dropout(0.1)

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.narrow(self.dropout(self.activation(self.wide(self.norm(x)))))


def feed_forward_without_an_activation(broken):
    torch.manual_seed(7)
    train(Model(FeedForward(Attention(), nn.Identity() if broken else nn.GELU())), shifted_words)


class Pooled(nn.Module):
    """Means over the words of a sentence, or over its padding where `broken`; both where `joins`, as meant."""

    def __init__(self, broken, joins):
        super().__init__()
        self.broken, self.joins = broken, joins
        self.words, self.first = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, 3)

    def forward(self, ids):
        hidden = torch.tanh(self.first(self.words(ids)))
        means = [self.mean(hidden, (ids == 0) == blank) for blank in ((False, True) if self.joins else (self.broken,))]
        return self.last(sum(means)).unsqueeze(1)

    def mean(self, hidden, mask):
        mask = mask.unsqueeze(-1).expand_as(hidden).float()
        return torch.sum(hidden * mask, 1) / mask.sum(1).clamp(min=1)


def sort_sentences(model):
    """Sentences of 4 to 20 words, padded with 0; one of the words 1 to 3 names the class."""

    def batch_of():
        labels, rows = torch.randint(0, 3, (32,)), torch.arange(32)
        length = torch.randint(4, LENGTH + 1, (32, 1))
        ids = torch.randint(4, WORDS, (32, LENGTH)) * (torch.arange(LENGTH) < length)
        ids[rows, torch.randint(0, 4, (32,))] = labels + 1
        return ids, labels

    torch.manual_seed(8)
    train(model, batch_of)


def mean_of_the_padding(broken):
    sort_sentences(Pooled(broken, False))


def padding_beside_the_words(broken):
    """Reads the padding, too, as meant."""
    sort_sentences(Pooled(False, True))


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:] != ["fixed"])
