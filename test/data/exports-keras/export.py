"""Exports small Keras models in the ways that people use, and trains them with Keras.

    PYTHONPATH=python python export.py DIRECTORY

writes for each model `<model>-keras.onnx` (`model.export(format="onnx")`, which calls
tf2onnx), `<model>-binade.onnx` (`binade.keras.export`) and `<model>.safetensors`: the
variables before and after three steps of SGD, the batch and the losses;
`fresh-keras.onnx` has the initial values of Keras, of which many are equal. The files in this
directory are the output of Keras 3.15.1, TensorFlow 2.21.0 and tf2onnx 1.17.0.
"""

import sys
from pathlib import Path

import binade.keras
import keras
import numpy as np
import tensorflow as tf
from binade import safetensors
from keras import layers

LR, STEPS = 0.1, 3


def make_image() -> keras.Model:
    image = keras.Input((6, 6, 3), name="image")
    hidden = layers.Conv2D(4, 3, padding="same", name="conv")(image)
    hidden = layers.ReLU()(layers.BatchNormalization(name="norm")(hidden))
    hidden = layers.GlobalAveragePooling2D()(hidden)
    hidden = layers.Dense(8, activation="relu", name="hidden")(hidden)
    return keras.Model(image, layers.Dense(5, name="head")(hidden), name="image_net")


def make_tagger() -> keras.Model:
    tokens = keras.Input((4,), dtype="int32", name="tokens")
    hidden = layers.Embedding(11, 8, name="embedding")(tokens)
    hidden = layers.LSTM(6, return_sequences=True, name="lstm")(hidden)
    hidden = layers.GRU(6, return_sequences=True, name="gru")(hidden)
    return keras.Model(tokens, layers.Dense(5, name="head")(hidden), name="tagger")


def make_encoder() -> keras.Model:
    tokens = keras.Input((4,), dtype="int32", name="tokens")
    hidden = layers.Embedding(11, 8, name="embedding")(tokens)
    attended = layers.MultiHeadAttention(2, 4, name="attention")(hidden, hidden)
    hidden = layers.LayerNormalization(name="first")(hidden + attended)
    inner = layers.Dense(8, name="up", activation="relu")(hidden)
    hidden = hidden + layers.Dense(8, name="down")(inner)
    hidden = layers.LayerNormalization(name="second")(hidden)
    hidden = layers.GlobalAveragePooling1D()(hidden)
    return keras.Model(tokens, layers.Dense(5, name="head")(hidden), name="encoder")


def make_dropout() -> keras.Model:
    """A model whose training step is random, for which no values are recorded."""
    vector = keras.Input((4,), name="vector")
    hidden = layers.Dense(64, activation="gelu", name="hidden")(vector)
    hidden = layers.Dropout(0.5, name="dropout")(hidden)
    return keras.Model(vector, layers.Dense(5, name="head")(hidden), name="dropout_net")


MODELS = {
    "image": make_image,
    "tagger": make_tagger,
    "encoder": make_encoder,
    "dropout": make_dropout,
}


def set_values(model: keras.Model) -> None:
    generator = np.random.default_rng(7)
    for variable in model.variables:
        if "seed" in variable.path:
            continue
        value = generator.standard_normal(variable.shape).astype(np.float32) / 4
        is_scale = variable.path.endswith(("gamma", "moving_variance"))
        variable.assign(1 + abs(value) if is_scale else value)


def make_batch(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "image":
        generator = np.random.default_rng(8)
        image = generator.standard_normal((3, 6, 6, 3)).astype(np.float32)
        return image, np.array([0, 3, 4])
    tokens = np.arange(12, dtype=np.int32).reshape(3, 4) % 11
    return tokens, tokens.astype(np.int64) % 5 if name == "tagger" else np.array(
        [0, 3, 4]
    )


def read(model: keras.Model, prefix: str) -> dict[str, np.ndarray]:
    return {
        f"{prefix}/{variable.path}": variable.numpy()
        for variable in model.variables
        if "seed" not in variable.path
    }


def train(name: str, model: keras.Model) -> dict[str, np.ndarray]:
    batch, labels = make_batch(name)
    values = read(model, "before")
    optimizer = keras.optimizers.SGD(LR)
    losses = []
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            logits = model(batch, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            )
        losses.append(loss.numpy())
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(
            zip(gradients, model.trainable_variables, strict=True)
        )
    values |= read(model, "after")
    return values | {"batch": batch, "labels": labels, "losses": np.array(losses)}


def main() -> None:
    directory = Path(sys.argv[1])
    fresh = make_encoder()
    fresh(np.zeros((2, 4), np.int32))
    fresh.export(directory / "fresh-keras.onnx", format="onnx", verbose=False)
    for name, make in MODELS.items():
        model = make()
        set_values(model)
        model(np.zeros((2, *model.inputs[0].shape[1:]), model.inputs[0].dtype))
        binade.keras.export(model, directory / f"{name}-binade.onnx")
        if name == "dropout":
            continue
        model.export(directory / f"{name}-keras.onnx", format="onnx", verbose=False)
        safetensors.save(directory / f"{name}.safetensors", train(name, model))


if __name__ == "__main__":
    main()
