"""An encoder and a decoder of LSTM layers with attention on sentences of noise: a stand-in for Sockeye.

The sizes are those with which P3's authors start Sockeye 1.5: two layers in each part, 512 units, embeddings of 512,
attention by a network of 512 units. The vocabularies are those of IWSLT'15, English to Vietnamese. Sockeye unrolls its
recurrent layers into cells by default; ``--fused`` makes each layer of the encoder one operator.
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--length", type=int, default=20, help="words of a sentence, in both languages")
parser.add_argument("--fused", action="store_true", help="one operator for each layer of the encoder")
args = parser.parse_args()

SOURCE_WORDS, TARGET_WORDS, WIDTH = 17_191, 7_709, 512


class Cells(nn.Module):
    """A layer that is unrolled: one cell for each word, forwards or backwards."""

    def __init__(self, inside, width, backwards=False):
        super().__init__()
        self.width, self.backwards = width, backwards
        self.cell = nn.LSTMCell(inside, width)

    def forward(self, words):
        state = (words.new_zeros(len(words), self.width),) * 2
        found = []
        for word in words.unbind(1)[:: -1 if self.backwards else 1]:
            state = self.cell(word, state)
            found.append(state[0])
        return torch.stack(found[:: -1 if self.backwards else 1], 1)


class BothWays(nn.Module):
    """Half of the units read forwards, half backwards."""

    def __init__(self):
        super().__init__()
        self.forwards = Cells(WIDTH, WIDTH // 2)
        self.backwards = Cells(WIDTH, WIDTH // 2, backwards=True)

    def forward(self, words):
        return torch.cat((self.forwards(words), self.backwards(words)), 2)


class Fused(nn.LSTM):
    """A layer as one operator."""

    def forward(self, words):
        return super().forward(words)[0]


class Encoder(nn.Module):
    """The first layer reads in both directions, the second one from the start."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SOURCE_WORDS, WIDTH)
        if args.fused:
            self.both = Fused(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)
            self.second = Fused(WIDTH, WIDTH, batch_first=True)
        else:
            self.both, self.second = BothWays(), Cells(WIDTH, WIDTH)

    def forward(self, words):
        return self.second(self.both(self.embedding(words)))


class Decoder(nn.Module):
    """Two layers. The result of attention for a word is an input for the next word."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TARGET_WORDS, WIDTH)
        self.first = nn.LSTMCell(2 * WIDTH, WIDTH)
        self.second = nn.LSTMCell(WIDTH, WIDTH)
        self.keys = nn.Linear(WIDTH, WIDTH, bias=False)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.score = nn.Linear(WIDTH, 1, bias=False)
        self.hidden = nn.Linear(2 * WIDTH, WIDTH)
        self.output = nn.Linear(WIDTH, TARGET_WORDS)

    def forward(self, encoded, words):
        keys, embedded = self.keys(encoded), self.embedding(words)
        fed = encoded.new_zeros(len(words), WIDTH)
        first = second = (fed, fed)
        found = []
        for place in range(words.shape[1]):
            first = self.first(torch.cat((embedded[:, place], fed), 1), first)
            second = self.second(first[0], second)
            scores = self.score(torch.tanh(keys + self.query(second[0]).unsqueeze(1)))
            context = (torch.softmax(scores, 1) * encoded).sum(1)
            fed = torch.tanh(self.hidden(torch.cat((second[0], context), 1)))
            found.append(fed)
        return self.output(torch.stack(found, 1))


class Translation(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.decoder = Decoder()

    def forward(self, source, target):
        return self.decoder(self.encoder(source), target)


model = Translation().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
source = torch.zeros(args.batch_size, args.length, dtype=torch.long, device="cuda")
target = torch.zeros(args.batch_size, args.length, dtype=torch.long, device="cuda")
for _ in range(100):
    scores = model(source, target)
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
