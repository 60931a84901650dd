"""The suite whisper on real torch: right on the CPU, and blind to none of these faults."""

from __future__ import annotations

import hashlib
import json
import subprocess
import wave
from pathlib import Path

import pytest

from tests.suites.torches import ROOT, Ran, Torch, Wanted
from tracker import transcripts
from tracker.matrix import load_suites
from tracker.model import State

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

SPOKEN = Wanted("whisper", "transcription:transcribe_speech", {"dtype": "float32", "clips": 1, "tokens": 8})


@pytest.fixture(scope="module")
def whole_suite(real_torch: Torch) -> dict[str, Ran]:
    """Every case in small size on the CPU."""
    (suite,) = [found for found in load_suites(ROOT / "suites", "small") if found.name == "whisper"]
    wanted = [Wanted(case.suite, case.function, case.params) for case in suite.cases]
    ran = real_torch.run(wanted, timeout=800.0)
    return dict(zip([case.id for case in suite.cases], ran, strict=True))


def test_the_cpu_is_right_by_its_own_measure(whole_suite: dict[str, Ran]) -> None:
    right = {State.PASS, State.SLOW, State.SKIPPED}
    odd = {name: ran.finding for name, ran in whole_suite.items() if ran.finding.state not in right}
    assert odd == {}


def test_a_seeded_model_writes_a_text_that_means_something(whole_suite: dict[str, Ran]) -> None:
    measures = whole_suite["whisper/transcribe/float32@small"].measures
    transcript = measures["transcript"]
    assert transcripts.diagnose(transcript) is None
    assert transcript["count"][0] == transcript["count"][1] >= 1
    for window in transcript["windows"]:
        assert window["tokens"][0] == window["tokens"][1] > 4
        assert 0.01 < window["no_speech"][1] < 0.99
        assert -1 < window["avg_logprob"][1] < 0
        assert window["falls_back"] == [False, False]
        assert 0 < window["noise"] < 1e-3


def test_half_is_measured_by_the_errors_of_float16(whole_suite: dict[str, Ran]) -> None:
    full, half = (
        whole_suite[f"whisper/encoder/{dtype}@small"].measures["checks"][0]
        for dtype in ("float32", "float16")
    )
    assert half["dtype"] == "float16"
    assert 100 * full["noise"] < half["noise"] < 0.05


FAULTY = """
import sys
sys.path[:0] = [sys.argv[1]]
import json, torch
from suites.whisper import greedy, models, seeded, transcription
model = seeded.model("mini", 0)
reference = transcription.Reference(model, seeded.sound(3.0, 0), "float32", tokens=12)
broken = models.moved(model, torch.device("cpu"))
with torch.no_grad():
    exec(sys.argv[2])
runs = [(0.0, [greedy.transcribe(broken, reference.samples, "float32", tokens=12, most=3)]) for _ in range(2)]
print(json.dumps(transcription._measures(runs, [reference], "float32", {})["transcript"]))
"""


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("pass", None),
        ("broken.decoder.ln.weight *= 1 + 1e-6", None),
        ("broken.decoder.ln.weight *= 0.99", "avg-logprob"),
        ("broken.encoder.positional_embedding.zero_()", "tokens"),
        ("broken.decoder.token_embedding.weight[50362] *= 1.02", "no-speech"),
    ],
)
def test_a_fault_of_the_device_is_named(torch_python: Path, fault: str, reason: str | None) -> None:
    command = [str(torch_python), "-I", "-c", FAULTY, str(ROOT), fault]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = transcripts.diagnose(json.loads(done.stdout.splitlines()[-1]))
    assert (found.reason if found else None) == reason


CONVERTED = """
import struct, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
import dataclasses
import numpy as np, torch
from suites.whisper import models, seeded

def name(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\\0"

def array(values):
    kind = {"float16": 4, "int16": 2}[str(values.dtype)]
    head = struct.pack("<B", values.ndim) + b"".join(struct.pack("<I", size) for size in values.shape)
    return head + struct.pack("<BI", kind, values.nbytes) + values.tobytes()

model = seeded.model("mini", 0)
with torch.no_grad():
    for parameter in model.parameters():
        parameter.copy_(parameter.half().float())
state = {key: value.numpy() for key, value in model.state_dict().items()}
have = {"encoder/num_heads": np.int16(2), "decoder/num_heads": np.int16(2)}
def put(place, *names):
    have[place + "/weight"] = np.concatenate([state[each + ".weight"] for each in names])
    have[place + "/bias"] = np.concatenate(
        [state.get(each + ".bias", np.zeros(len(state[each + ".weight"]))) for each in names])
def norm(place, each):
    have[place + "/gamma"], have[place + "/beta"] = state[each + ".weight"], state[each + ".bias"]
for part in ("encoder", "decoder"):
    have[part + "/position_encodings/encodings"] = state[part + ".positional_embedding"]
    norm(part + "/layer_norm", part + (".ln_post" if part == "encoder" else ".ln"))
    for layer in range(2):
        place, block = f"{part}/layer_{layer}", f"{part}.blocks.{layer}"
        norm(place + "/self_attention/layer_norm", block + ".attn_ln")
        put(place + "/self_attention/linear_0", *(f"{block}.attn.{key}" for key in ("query", "key", "value")))
        put(place + "/self_attention/linear_1", block + ".attn.out")
        norm(place + "/ffn/layer_norm", block + ".mlp_ln")
        put(place + "/ffn/linear_0", block + ".mlp.0")
        put(place + "/ffn/linear_1", block + ".mlp.2")
        if part == "decoder":
            norm(place + "/attention/layer_norm", block + ".cross_attn_ln")
            put(place + "/attention/linear_0", block + ".cross_attn.query")
            put(place + "/attention/linear_1", block + ".cross_attn.key", block + ".cross_attn.value")
            put(place + "/attention/linear_2", block + ".cross_attn.out")
for conv in ("conv1", "conv2"):
    put("encoder/" + conv, "encoder." + conv)
have["decoder/embeddings/weight"] = state["decoder.token_embedding.weight"]
variables = {key: np.asarray(value, np.int16 if "num_heads" in key else np.float16) for key, value in have.items()}
data = struct.pack("<I", 6) + name("WhisperSpec") + struct.pack("<II", 3, len(variables))
data += b"".join(name(key) + array(value) for key, value in sorted(variables.items()))
data += struct.pack("<I", 1) + name("decoder/projection/weight") + name("decoder/embeddings/weight")
folder = Path(sys.argv[2])
(folder / "model.bin").write_bytes(data)
torch.save({"dims": dataclasses.asdict(model.dims), "model_state_dict": model.state_dict()}, folder / "tiny.en.pt")

from suites.whisper import ctranslate2, weights
read = weights._model(ctranslate2.checkpoint(folder / "model.bin"))
for key, value in model.state_dict().items():
    limit = 1e-3 if key == "encoder.positional_embedding" else 0.0  # not a parameter, so it was rounded here only
    assert torch.allclose(value, read.state_dict()[key], rtol=0.0, atol=limit), key
"""


@pytest.fixture(scope="module")
def checkpoints(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one seeded model twice: as openai-whisper stores it, and converted for CTranslate2."""
    folder = tmp_path_factory.mktemp("weights")
    subprocess.run([str(torch_python), "-I", "-c", CONVERTED, str(ROOT), str(folder)], check=True)
    return folder


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data with one recording of silence, in which two words are said."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "speech").mkdir()
    with wave.open(str(folder / "speech" / "one.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(b"\0\1" * 16000)
    (folder / "speech" / "one.txt").write_text("Try again.")
    return folder


@pytest.mark.parametrize("name", ["model.bin", "tiny.en.pt"])
def test_words_are_counted_with_weights_of_either_kind(
    real_torch: Torch, checkpoints: Path, recordings: Path, name: str
) -> None:
    options = {"weights": str(checkpoints / name), "data": str(recordings)}
    measures = real_torch.run([SPOKEN], options=options)[0].measures
    assert measures["facts"]["weights"] == name
    assert measures["transcript"]["words"][2] == 2
    assert transcripts.diagnose(measures["transcript"]) is None


def test_weights_of_a_url_count_only_with_their_digest(
    real_torch: Torch, checkpoints: Path, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = checkpoints / "tiny.en.pt"
    options = {"data": str(recordings), "whisper_url": file.as_uri()}
    right = hashlib.sha256(file.read_bytes()).hexdigest()
    for digest, reason in ((right, "pass"), ("0" * 64, "weights-digest"), ("", "weights-not-fetched")):
        found = real_torch.run([SPOKEN], options={**options, "whisper_sha256": digest})[0].finding
        assert found.reason == reason


def test_speech_is_skipped_without_weights_and_without_recordings(
    real_torch: Torch, recordings: Path, checkpoints: Path
) -> None:
    for options, reason in (
        ({"weights": str(checkpoints)}, "speech-not-at-hand"),
        ({"data": str(recordings)}, "weights-not-at-hand"),
    ):
        found = real_torch.run([SPOKEN], options=options)[0].finding
        assert (found.state, found.reason) == (State.SKIPPED, reason)
