"""Make small data sets in the formats that public scripts read: ``python corpus_data.py WHAT WHERE``.

The contents are random; only formats, shapes and sizes match the real data sets. It runs under the interpreter of the
scripts, which has NumPy and PyTorch, and shares no code with Skyline.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import pickle
import random
import struct
import sys
import zlib
from pathlib import Path

CHANCE = random.Random(0)
_WORDS = ["".join(CHANCE.choices("etaoinshrdlucmfwypvbgk", k=CHANCE.randint(2, 9))) for _ in range(4000)]


def mnist(root: Path, train: int = 60_000, test: int = 10_000, name: str = "MNIST") -> None:
    """The four idx files, as torchvision finds them below its root."""
    raw = root / name / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", train), ("t10k", test)):
        images = struct.pack(">4i", 2051, count, 28, 28) + CHANCE.randbytes(count * 784)
        labels = struct.pack(">2i", 2049, count) + bytes(CHANCE.choices(range(10), k=count))
        (raw / f"{part}-images-idx3-ubyte").write_bytes(images)
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def fashion_mnist(root: Path) -> None:
    """The same files, under the name Fashion-MNIST."""
    mnist(root, name="FashionMNIST")


def mnist_tensors(root: Path) -> None:
    """The digits as saved tensors, as Lightning's own examples find them below their root."""
    import torch

    folder = root / "MNIST" / "complete"
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("training", 60_000), ("test", 10_000)):
        pictures = torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8)
        torch.save((pictures, torch.randint(0, 10, (count,))), folder / f"{name}.pt")


def cifar10(root: Path) -> None:
    """The pickled batches, as torchvision finds them below its root."""
    import numpy

    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True, exist_ok=True)
    numbers = numpy.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        batch = {
            "data": numbers.integers(0, 256, (10_000, 3072), dtype=numpy.uint8),
            "labels": numbers.integers(0, 10, 10_000).tolist(),
        }
        (folder / name).write_bytes(pickle.dumps(batch))
    (folder / "batches.meta").write_bytes(
        pickle.dumps({"label_names": [str(number) for number in range(10)]})
    )


def cifar100(root: Path) -> None:
    """The two pickled files and the names of the hundred classes, as torchvision finds them below its root."""
    import numpy

    folder = root / "cifar-100-python"
    folder.mkdir(parents=True, exist_ok=True)
    numbers = numpy.random.default_rng(0)
    for name, count in (("train", 50_000), ("test", 10_000)):
        part = {
            "data": numbers.integers(0, 256, (count, 3072), dtype=numpy.uint8),
            "fine_labels": numbers.integers(0, 100, count).tolist(),
        }
        (folder / name).write_bytes(pickle.dumps(part))
    names = {"fine_label_names": [str(number) for number in range(100)]}
    (folder / "meta").write_bytes(pickle.dumps(names))


def mnist_archive(file: Path) -> None:
    """The digits in one archive, as Keras keeps them."""
    import numpy

    numbers = numpy.random.default_rng(0)
    parts: dict[str, numpy.ndarray] = {}
    for part, count in (("train", 60_000), ("test", 10_000)):
        parts[f"x_{part}"] = numbers.integers(0, 256, (count, 28, 28), dtype=numpy.uint8)
        parts[f"y_{part}"] = numbers.integers(0, 10, count, dtype=numpy.uint8)
    file.parent.mkdir(parents=True, exist_ok=True)
    numpy.savez(file, **parts)


def words(file: Path, lines: int = 12_000) -> None:
    """Text of some thousand different words, one sentence per line."""
    text = (" ".join(CHANCE.choices(_WORDS, k=CHANCE.randint(8, 30))) for _ in range(lines))
    _write(file, "".join(f" {line} . \n" for line in text).encode())


def characters(file: Path) -> None:
    """A megabyte of text with about the letters of English, so that it contains all letters of a script's prompt."""
    alphabet = "\n !,.?':;-&$3ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    _write(file, ("O God, O God!\n" + "".join(CHANCE.choices(alphabet, k=1_000_000))).encode())


def enwik8(file: Path) -> None:
    """A hundred million bytes of text, compressed."""
    piece = " ".join(CHANCE.choices(_WORDS, k=40_000)).encode()
    _write(file, gzip.compress((piece * (100_000_000 // len(piece) + 1))[:100_000_000], compresslevel=1))


def images(folder: Path, count: int = 60, size: int = 320) -> None:
    """PNG pictures of coloured noise, coarse enough to compress."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        _png(folder / f"{number:04}.png", size, channels=3)


def photos(folder: Path, count: int = 160) -> None:
    """Pictures in a folder for each of two classes. Some are as large as camera photos, and take long to read."""
    for number in range(count):
        large = number % 40 == 7
        picture = folder / f"class{number % 2}" / f"{number:04}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        _png(picture, 4800 if large else 240, channels=3)


def all_sizes(folder: Path, count: int = 160) -> None:
    """The same pictures in one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        _png(folder / f"{number:04}.png", 4800 if number % 40 == 7 else 320, channels=3)


def albums(folder: Path, count: int = 80) -> None:
    """Small pictures in a folder for each of two classes."""
    for number in range(count):
        picture = folder / f"class{number % 2}" / f"{number:04}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        _png(picture, 96, channels=3)


def digits(folder: Path, count: int = 640) -> None:
    """Black and white pictures of 28 by 28 pixels in a folder for each of ten digits."""
    for number in range(count):
        picture = folder / str(number % 10) / f"{number:04}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        _png(picture, 28, channels=1, block=4)


def masks(folder: Path, count: int = 60, size: int = 320) -> None:
    """Black and white pictures with the numbers of ``images``."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        _png(folder / f"{number:04}.png", size, channels=1)


def sine(file: Path) -> None:
    """Shifted sine waves, saved the way the script's own generator saves them, but fewer and shorter."""
    import numpy
    import torch

    shifts = numpy.random.default_rng(2).integers(-80, 80, 12).reshape(12, 1)
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(numpy.sin((numpy.arange(120) + shifts) / 20.0).astype("float64"), file)


def cora(folder: Path) -> None:
    """A citation graph: 2708 papers, 1433 words, seven classes; papers that are cited already keep their numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    cites = folder / "cora.cites"
    if not cites.exists():
        pairs = (CHANCE.sample(range(1, 2709), 2) for _ in range(5429))
        cites.write_text("".join(f"{first}\t{second}\n" for first, second in pairs), encoding="utf-8")
    papers = sorted({int(number) for number in cites.read_text(encoding="utf-8").split()})
    classes = ("Case_Based", "Genetic_Algorithms", "Neural_Networks", "Probabilistic_Methods")
    classes = (*classes, "Reinforcement_Learning", "Rule_Learning", "Theory")
    with (folder / "cora.content").open("w", encoding="utf-8") as file:
        for paper in papers:
            row = ["1" if CHANCE.random() < 0.013 else "0" for _ in range(1433)]
            row[CHANCE.randrange(1433)] = "1"
            file.write("\t".join([str(paper), *row, CHANCE.choice(classes)]) + "\n")


def molecules(folder: Path, count: int = 188) -> None:
    """Graphs of two classes in the text files of the TU collection, named for the folder above, sizes as in MUTAG."""
    folder.mkdir(parents=True, exist_ok=True)
    edges, graphs, first = list[str](), list[int](), 1
    for graph in range(1, count + 1):
        size = CHANCE.randint(10, 28)
        for atom in range(first + 1, first + size):
            other = CHANCE.randrange(first, atom)
            edges += [f"{atom}, {other}", f"{other}, {atom}"]
        graphs += [graph] * size
        first += size
    contents = {
        "A": edges,
        "graph_indicator": graphs,
        "graph_labels": CHANCE.choices((-1, 1), k=count),
        "node_labels": CHANCE.choices(range(7), k=len(graphs)),
        "edge_labels": CHANCE.choices(range(4), k=len(edges)),
    }
    for name, lines in contents.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{folder.parent.name}_{name}.txt").write_text(text, encoding="utf-8")


def hourly(file: Path, hours: int = 17_420) -> None:
    """Seven columns of loads and temperatures, one row per hour, as in the ETT data sets."""
    import datetime

    begin = datetime.datetime(2016, 7, 1)
    rows = ["date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT"]
    for hour in range(hours):
        numbers = ",".join(f"{CHANCE.gauss(10, 5):.3f}" for _ in range(7))
        rows.append(f"{begin + datetime.timedelta(hours=hour)},{numbers}")
    _write(file, ("\n".join(rows) + "\n").encode())


def names(file: Path, count: int = 20_000) -> None:
    """Names in lower case, one per line."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    lines = ("".join(CHANCE.choices(letters, k=CHANCE.randint(3, 10))) for _ in range(count))
    _write(file, "\n".join([letters, *lines]).encode())


def titles(folder: Path) -> None:
    """Titles in Chinese characters, each with the number of one of ten classes, in files for the three splits."""
    letters = [chr(0x4E00 + number) for number in range(3000)]
    for part, count in (("train", 20_000), ("dev", 500), ("test", 500)):
        lines = (
            f"{''.join(CHANCE.choices(letters, k=CHANCE.randint(8, 30)))}\t{CHANCE.randrange(10)}\n"
            for _ in range(count)
        )
        _write(folder / f"{part}.txt", "".join(lines).encode())


def triples(folder: Path, entities: int = 15_000, relations: int = 1_300) -> None:
    """Facts of a knowledge graph, head, relation and tail on a line, in sizes like those of FB15k."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", 60_000), ("valid", 200), ("test", 200)):
        facts = (
            (CHANCE.randrange(entities), CHANCE.randrange(relations), CHANCE.randrange(entities))
            for _ in range(count)
        )
        text = "".join(f"/m/{head}\t/r/{relation}\t/m/{tail}\n" for head, relation, tail in facts)
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def chats(file: Path) -> None:
    """Prompts and completions, one JSON object per line."""
    rows = (
        {
            "prompt": " ".join(CHANCE.choices(_WORDS, k=20)),
            "completion": " ".join(CHANCE.choices(_WORDS, k=40)),
        }
        for _ in range(400)
    )
    _write(file, "".join(json.dumps(row) + "\n" for row in rows).encode())


def instructions(file: Path, count: int = 800) -> None:
    """Instructions with inputs and answers, in one JSON list."""
    rows = [
        {name: " ".join(CHANCE.choices(_WORDS, k=12)) for name in ("instruction", "input", "output")}
        for _ in range(count)
    ]
    _write(file, json.dumps(rows).encode())


def texts(file: Path, count: int = 4000) -> None:
    """Texts for a language model, one JSON object per line."""
    rows = (json.dumps({"text": " ".join(CHANCE.choices(_WORDS, k=60))}) for _ in range(count))
    _write(file, "".join(f"{row}\n" for row in rows).encode())


def tiny_llama(folder: Path) -> None:
    """A small language model with its tokenizer, as a Hugging Face script loads it from a folder."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<unk>", "<s>", "</s>", "<pad>"]
    vocabulary = {word: number for number, word in enumerate([*special, *dict.fromkeys(_WORDS)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)


def gpt2_vocabulary(folder: Path) -> None:
    """Merge pairs and token numbers, 50256 in all, in tiktoken's format for GPT-2. The pairs are random."""
    plain = [chr(byte) for byte in range(256) if chr(byte).isprintable() and chr(byte) != " "]
    tokens = [*plain, *(chr(256 + number) for number in range(256 - len(plain)))]
    known, merges = set(tokens), list[str]()
    while len(merges) < 50_000:
        pair = CHANCE.choices(tokens, k=2)
        if (token := "".join(pair)) not in known and len(token) < 16:
            known.add(token)
            tokens.append(token)
            merges.append(" ".join(pair))
    contents = {
        "vocab.bpe": "\n".join(["#version: 0.2", *merges, ""]),
        "encoder.json": json.dumps({token: number for number, token in enumerate(tokens)}),
    }
    for name, text in contents.items():
        address = f"https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/{name}"
        _write(folder / hashlib.sha1(address.encode()).hexdigest(), text.encode())


def gpt2_tokens(file: Path, count: int = 200_000) -> None:
    """Token numbers of a vocabulary of 50257 after a header, as llm.c reads them."""
    header = struct.pack("<256i", 20240520, 1, count, *[0] * 253)
    numbers = (CHANCE.randrange(50_257) for _ in range(count))
    _write(file, header + b"".join(number.to_bytes(2, "little") for number in numbers))


def token_shards(folder: Path, count: int = 200_000) -> None:
    """Two files of token numbers of a vocabulary of 32000, two bytes each, as llama2.c reads them."""
    for shard in range(2):
        numbers = (CHANCE.randrange(32_000) for _ in range(count))
        _write(folder / f"data{shard:02}.bin", b"".join(number.to_bytes(2, "little") for number in numbers))


def spectrograms(folder: Path, speakers: int = 20, utterances: int = 5) -> None:
    """Mel spectrograms and an embedding for each speaker, listed in a pickle, as AutoVC reads them."""
    import numpy

    numbers = numpy.random.default_rng(0)
    listed: list[list[object]] = []
    for speaker in range(speakers):
        entry: list[object] = [f"p{speaker:03}", numbers.random(256, dtype=numpy.float32)]
        (folder / f"p{speaker:03}").mkdir(parents=True, exist_ok=True)
        for utterance in range(utterances):
            name = f"p{speaker:03}/{utterance}.npy"
            numpy.save(folder / name, numbers.random((200, 80), dtype=numpy.float32))
            entry.append(name)
        listed.append(entry)
    (folder / "train.pkl").write_bytes(pickle.dumps(listed))


def tiny_bert(folder: Path) -> None:
    """A small encoder without a tokenizer, as a Hugging Face script loads it from a folder."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=2000,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)


def tagged(file: Path, sentences: int = 2000, length: int = 32) -> None:
    """Sentences as token numbers with one label per word, for the encoder of ``tiny_bert``."""
    import torch

    torch.manual_seed(0)
    labels = 20

    def part(count: int) -> dict[str, torch.Tensor]:
        return {
            "tokens": torch.randint(0, 2000, (count, length)),
            "masks": torch.ones(count, length, dtype=torch.long),
            "labels": torch.randint(0, labels, (count, length)),
        }

    file.parent.mkdir(parents=True, exist_ok=True)
    parts = {"train": part(sentences), "dev": part(50), "test": part(50)}
    names = {number: f"label {number}" for number in range(labels)}
    torch.save({**parts, "lang_model_name": "tiny_bert", "id2label": names}, file)


def folder(path: Path) -> None:
    """An empty folder, where a script expects one."""
    path.mkdir(parents=True, exist_ok=True)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _png(file: Path, size: int, channels: int, block: int = 8) -> None:
    """Write a picture of square blocks of ``block`` pixels, each of one colour."""
    blocks = size // block
    rows: list[bytes] = []
    for _ in range(blocks):
        colours = [
            CHANCE.randbytes(3) if channels == 3 else CHANCE.choice((b"\0", b"\xff")) for _ in range(blocks)
        ]
        rows += [b"\0" + b"".join(colour * block for colour in colours)] * block
    kind = 2 if channels == 3 else 0

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    head = struct.pack(">2I5B", blocks * block, blocks * block, 8, kind, 0, 0, 0)
    body = zlib.compress(b"".join(rows), 1)
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b""))


MAKERS = {
    maker.__name__: maker
    for maker in (
        mnist,
        fashion_mnist,
        mnist_tensors,
        cifar10,
        cifar100,
        mnist_archive,
        words,
        characters,
        enwik8,
        images,
        photos,
        all_sizes,
        albums,
        digits,
        masks,
        sine,
        cora,
        molecules,
        hourly,
        names,
        titles,
        triples,
        chats,
        instructions,
        texts,
        tiny_llama,
        gpt2_vocabulary,
        gpt2_tokens,
        token_shards,
        spectrograms,
        tiny_bert,
        tagged,
        folder,
    )
}

if __name__ == "__main__":
    MAKERS[sys.argv[1]](Path(sys.argv[2]))
