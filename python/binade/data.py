"""Turns npz files, text and PyTorch data sets into Binade's data files.

A data file is a safetensors file with one tensor per batch input, whose first axis
counts samples. For text it has one tensor ``tokens``, from which ``binade train
--window`` cuts inputs. Integers are stored in the narrowest type that holds them all;
training converts them to the types of the model's inputs.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from binade import safetensors
from binade.command import load_object, run_command
from binade.errors import RejectedError, reading
from binade.initial import philox
from binade.parser import Parser

VOCABULARY_KEY = "binade.vocabulary"
_INTEGERS = (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.int64)


def convert_npz(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    batched: bool = False,
    split: float = 0.0,
    seed: int = 0,
) -> list[Path]:
    """Writes the arrays of an npz file as tensors of the same names.

    Args:
      source: The ``.npz`` file.
      out: The data file to write.
      batched: The arrays are [batches, samples, ...]; the first two axes are joined.
      split: Share of the samples that goes to a second, held-out file.
      seed: Chooses the held-out samples.

    Returns:
      The files written: the data file, and the held-out file if there is one.

    Raises:
      RejectedError: If there is no such file, or its arrays do not have one number of
        samples.
      FileError: If the system refuses to read or write a file.
    """
    arrays = _read_npz(source)
    if batched:
        for name, array in arrays.items():
            if array.ndim < 2:
                raise RejectedError(
                    f"{os.fspath(source)}: '{name}' of shape "
                    f"{list(array.shape)} has no batch axis to join"
                )
            arrays[name] = array.reshape(-1, *array.shape[2:])
    return save_samples(arrays, out, split=split, seed=seed, source=source)


def convert_text(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    vocabulary: str = "characters",
    split: float = 0.0,
) -> list[Path]:
    """Writes a text as one stream ``tokens``; the held-out part is the text's end.

    Args:
      source: A UTF-8 text file.
      out: The data file to write.
      vocabulary: ``"characters"``: a token is the index of a character in the sorted
        list of the text's characters; ``"bytes"``: a token is a byte; or a data
        file whose list is used. The list is stored in the file's metadata.
      split: Share of the tokens that goes to a second, held-out file.
    """
    with reading(source):
        raw = Path(source).read_bytes()
    metadata = {"source": Path(source).name}
    if vocabulary == "bytes":
        tokens = np.frombuffer(raw, np.uint8)
    else:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RejectedError(
                f"{os.fspath(source)}: not UTF-8 at byte {error.start}; "
                "use --vocabulary bytes"
            ) from error
        symbols = (
            sorted(set(text))
            if vocabulary == "characters"
            else read_vocabulary(vocabulary)
        )
        tokens = _tokens(text, symbols, source)
        metadata[VOCABULARY_KEY] = json.dumps(symbols, ensure_ascii=False)
    held_out = _held_out_count(len(tokens), split, source)
    return _write(
        out,
        {"tokens": tokens[: len(tokens) - held_out]},
        {"tokens": tokens[len(tokens) - held_out :]},
        metadata,
    )


def convert_dataset(
    dataset: object,
    out: str | os.PathLike[str],
    *,
    names: Sequence[str] | None = None,
    split: float = 0.0,
    seed: int = 0,
) -> list[Path]:
    """Writes every sample of a map-style PyTorch data set.

    Args:
      dataset: Has ``len()`` and gives samples by index: a mapping of names to
        tensors, arrays or numbers, or a tuple of them.
      out: The data file to write.
      names: For tuples: the name of each part, as the model's inputs are called.
      split: Share of the samples that goes to a second, held-out file.
      seed: Chooses the held-out samples.
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise RejectedError(
            f"a data set needs len() and [index], {type(dataset).__name__} lacks them"
        )
    arrays: dict[str, np.ndarray] = {}
    count = len(dataset)
    for index in tqdm(range(count), desc="samples", unit=""):
        sample = _named_parts(dataset[index], names)
        if not arrays:
            arrays = {
                name: np.empty((count, *part.shape), part.dtype)
                for name, part in sample.items()
            }
        for name, array in arrays.items():
            if name not in sample:
                raise RejectedError(f"sample {index} has no '{name}'")
            if sample[name].shape != array.shape[1:]:
                raise RejectedError(
                    f"sample {index} has '{name}' of shape {list(sample[name].shape)}, "
                    f"sample 0 of {list(array.shape[1:])}; all samples need one shape"
                )
            array[index] = sample[name]
    return save_samples(
        arrays, out, split=split, seed=seed, source=type(dataset).__name__
    )


def save_samples(
    arrays: Mapping[str, np.ndarray],
    out: str | os.PathLike[str],
    *,
    split: float = 0.0,
    seed: int = 0,
    source: str | os.PathLike[str] = "",
) -> list[Path]:
    """Writes arrays whose first axes count the same samples."""
    if not arrays:
        raise RejectedError(f"{os.fspath(source)}: there are no arrays")
    for name, array in arrays.items():
        if array.ndim == 0:
            raise RejectedError(
                f"'{name}' is one number; its first axis must count samples"
            )
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise RejectedError(
            "the first axes differ: "
            + ", ".join(f"'{name}' has {count}" for name, count in counts.items())
        )
    count = next(iter(counts.values()))
    held_out = np.zeros(count, bool)
    held_out[_draw_order(count, seed)[: _held_out_count(count, split, source)]] = True
    return _write(
        out,
        {name: array[~held_out] for name, array in arrays.items()},
        {name: array[held_out] for name, array in arrays.items()},
        {"source": Path(source).name},
    )


def read_vocabulary(path: str | os.PathLike[str]) -> list[str]:
    """Returns the characters that the tokens of a data file represent, in order."""
    text = safetensors.read_header(path).metadata.get(VOCABULARY_KEY)
    if text is None:
        raise RejectedError(f"{os.fspath(path)}: the file has no {VOCABULARY_KEY}")
    try:
        return json.loads(text)
    except ValueError as error:
        raise RejectedError(
            f"{os.fspath(path)}: {VOCABULARY_KEY} is not valid JSON: {error}"
        ) from error


def _read_npz(source: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    try:
        with reading(source):
            loaded = np.load(source, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise RejectedError(
                    f"{os.fspath(source)}: holds one array without a name; expected an "
                    "npz file, as numpy.savez(FILE, NAME=ARRAY) writes it"
                )
            with loaded as file:
                return {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = (
            str(error)
            if zipfile.is_zipfile(source)
            else "not an npz file, as numpy.savez(FILE, NAME=ARRAY) writes it"
        )
        raise RejectedError(f"{os.fspath(source)}: {reason}") from error


def _tokens(
    text: str, symbols: Sequence[str], source: str | os.PathLike[str]
) -> np.ndarray:
    """Returns the index of each character of a text in a list of characters."""
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    table = np.array([ord(symbol) for symbol in symbols], np.uint32)
    order = np.argsort(table)
    found = np.searchsorted(table, codes, sorter=order).clip(max=len(table) - 1)
    tokens = order[found]
    unknown = np.flatnonzero(table[tokens] != codes)
    if len(unknown):
        raise RejectedError(
            f"{os.fspath(source)}: character {text[unknown[0]]!r} at "
            f"{unknown[0]} is not in the vocabulary"
        )
    return tokens


def _named_parts(sample: object, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """Returns a sample of a data set as arrays by name."""
    if isinstance(sample, Mapping):
        return {str(name): np.asarray(part) for name, part in sample.items()}
    parts = sample if isinstance(sample, (tuple, list)) else (sample,)
    if names is None or len(names) != len(parts):
        raise RejectedError(
            f"a sample has {len(parts)} parts: name them with --names, "
            "in order, as the model's inputs are called"
        )
    return {name: np.asarray(part) for name, part in zip(names, parts)}


def _held_out_count(count: int, split: float, source: str | os.PathLike[str]) -> int:
    """Returns how many of `count` samples are held out; both parts get at least one."""
    if not 0 <= split < 1:
        raise RejectedError(f"the held-out share must be in [0, 1), got {split}")
    held_out = round(count * split)
    if split and not 0 < held_out < count:
        raise RejectedError(
            f"{os.fspath(source)}: {count} samples cannot be split into "
            f"{1 - split:g} and {split:g}"
        )
    return held_out


def _draw_order(count: int, seed: int) -> np.ndarray:
    """Returns a random permutation of `count` samples, the same on every machine."""
    counter = np.zeros((count, 4), np.uint32)
    counter[:, 0] = np.arange(count)
    words = philox(counter, (seed & 0xFFFFFFFF, seed >> 32))[:, 0]
    return np.argsort(words, kind="stable")


def _narrowed(name: str, array: np.ndarray) -> np.ndarray:
    """Converts an array to a type of data files: the narrowest integer type, or f32 for
    f64."""
    if array.dtype.kind in "iu":
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        for dtype in _INTEGERS:
            if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                return array.astype(dtype)
        raise RejectedError(f"'{name}' holds {high}, beyond 64 bits with a sign")
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype.kind in "OUSMm":
        raise RejectedError(f"'{name}' holds {array.dtype}, not numbers")
    return array


def _write(
    out: str | os.PathLike[str],
    kept: Mapping[str, np.ndarray],
    held_out: Mapping[str, np.ndarray],
    metadata: Mapping[str, str],
) -> list[Path]:
    """Writes the data file, and the held-out part to a second file if it has samples."""
    out = Path(out)
    parts = {out: kept}
    if all(len(array) for array in held_out.values()):
        parts[out.with_suffix(".held-out" + out.suffix)] = held_out
    # A tensor has the same type in both files.
    dtypes = {
        name: _narrowed(name, np.concatenate([kept[name], held_out[name]])).dtype
        for name in kept
    }
    for path, arrays in parts.items():
        safetensors.save(
            path,
            {name: array.astype(dtypes[name]) for name, array in arrays.items()},
            metadata,
        )
        print(
            f"{path}: "
            + ", ".join(
                f"{name} {safetensors.dtype_name(dtypes[name])} {list(array.shape)}"
                for name, array in arrays.items()
            )
        )
    return list(parts)


def make_parser() -> Parser:
    """Returns the parser of ``binade data``."""
    common = Parser(add_help=False)
    common.add_argument(
        "--out",
        required=True,
        metavar="FILE.safetensors",
        help="data file to write",
    )
    common.add_argument(
        "--split",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="fraction of the data to write to FILE.held-out.safetensors instead, "
        "such as 0.1 (default: 0)",
    )
    seeded = Parser(add_help=False)
    seeded.add_argument(
        "--seed",
        type=int,
        default=0,
        help="seed that selects the held-out samples (default: 0)",
    )

    parser = Parser(
        prog="binade data",
        description="Write a data file for 'binade train --data'.",
        epilog="Examples:\n"
        "  binade data text corpus.txt --out train.safetensors --split 0.1\n"
        "  binade data npz arrays.npz --out train.safetensors\n"
        "  binade data dataset package.module:make_dataset --names x,labels "
        "--out train.safetensors",
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    npz = kinds.add_parser(
        "npz",
        parents=[common, seeded],
        help="an .npz file with arrays whose first axis is the sample",
    )
    npz.add_argument(
        "source", metavar="FILE.npz", help="arrays named after the model's inputs"
    )
    npz.add_argument(
        "--batched",
        action="store_true",
        help="the arrays have shape [batches, "
        "samples, ...]; the first two axes are joined",
    )
    text = kinds.add_parser(
        "text", parents=[common], help="a text file, as one stream of tokens"
    )
    text.add_argument("source", metavar="FILE.txt", help="UTF-8 text")
    text.add_argument(
        "--vocabulary",
        default="characters",
        metavar="KIND",
        help="what a token is: characters (default): the index of a character among "
        "those in the text; bytes; or a data file, whose characters are used",
    )
    dataset = kinds.add_parser(
        "dataset",
        parents=[common, seeded],
        help="a map-style PyTorch data set, with len() and indexing",
    )
    dataset.add_argument(
        "source",
        metavar="pkg.mod:make_dataset",
        help="function that returns the data set",
    )
    dataset.add_argument(
        "--names",
        metavar="A,B",
        help="for samples that are tuples: "
        "the name of each part, which is the model's input",
    )
    return parser


def _main(arguments: Sequence[str] | None) -> None:
    options = make_parser().parse_args(arguments)

    if options.kind == "npz":
        convert_npz(
            options.source,
            options.out,
            batched=options.batched,
            split=options.split,
            seed=options.seed,
        )
    elif options.kind == "text":
        convert_text(
            options.source,
            options.out,
            vocabulary=options.vocabulary,
            split=options.split,
        )
    else:
        convert_dataset(
            load_object(options.source)(),
            options.out,
            names=options.names.split(",") if options.names else None,
            split=options.split,
            seed=options.seed,
        )


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade data", _main)


if __name__ == "__main__":
    raise SystemExit(main())
