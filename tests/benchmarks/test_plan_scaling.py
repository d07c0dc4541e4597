"""Published scaling from one GPU to eight: reading of tables, and the closed form of the law."""

from __future__ import annotations

import json

import pytest

HEADINGS = ["Performance", "Training performance results", "Training performance: DGX-1 (8x V100 16GB)"]


def tables(folder, *tables):
    found = [
        {"source": f"NVIDIA/DeepLearningExamples:PyTorch/{code}/README.md", "headings": HEADINGS, "before": "",
         "header": header, "rows": rows}
        for code, header, rows in tables
    ]  # fmt: skip
    (folder / "nvidia_examples.json").write_text(json.dumps(found))
    return folder


def test_pairs_have_equal_settings_and_a_step(tmp_path):
    from scaling_rows import scaling_pairs

    header = ["GPUs", "Batch size / GPU (FP32 and FP16)", "Accumulation steps (FP32 and FP16)",
              "Throughput - FP32(sequences/sec)", "Throughput - mixed precision(sequences/sec)"]  # fmt: skip
    rows = [
        ["1", "16 and 32", "4 and 2", "100", "200"],
        ["8", "16 and 32", "4 and 2", "720", "1,280"],
        ["1", "8 and 8", "1 and 1", "90", "180"],
    ]
    pairs, left_out = scaling_pairs(tables(tmp_path, ("LanguageModeling/BERT", header, rows)))
    single, mixed = pairs
    assert sum(left_out.values()) == 1
    assert (single.mixed, mixed.mixed) == (False, True)
    assert single.published == pytest.approx(0.9)
    assert mixed.published == pytest.approx(0.8)
    assert single.step_us == pytest.approx(16 / 100 * 4 * 1e6)
    assert mixed.step_us == pytest.approx(32 / 200 * 2 * 1e6)
    assert not single.images


def test_batches_by_the_name_of_the_precision(tmp_path):
    from scaling_rows import scaling_pairs

    header = ["Number of GPUs", "Batch size per GPU", "Number of samples used with mixed precision",
              "Number of samples used with FP32"]  # fmt: skip
    rows = [["1", "10@FP16, 4@FP32", "80,000", "32,000"], ["8", "10@FP16, 4@FP32", "600,000", "240,000"]]
    pairs, _ = scaling_pairs(tables(tmp_path, ("SpeechSynthesis/Tacotron2", header, rows)))
    assert [(one.model, one.mixed, one.step_us) for one in pairs] == [
        ("WaveGlow", True, 1e6),
        ("WaveGlow", False, 1e6),
    ]


def test_rows_that_contradict_themselves(tmp_path):
    from scaling_rows import scaling_pairs

    header = ["GPUs", "Throughput - TF32", "Weak scaling - TF32"]
    rows = [["1", "10", "1.0"], ["8", "50", "3.4"]]
    faster = [["1", "10", "1.0"], ["8", "160", "16.0"]]
    sound = [["1", "10", "1.0"], ["8", "75", "7.5"]]
    found = [
        scaling_pairs(tables(tmp_path, ("LanguageModeling/BART", header, chosen)))[0][0].contradiction
        for chosen in (rows, faster, sound)
    ]
    assert "own column says 3.4" in found[0]
    assert "16.0 times as fast" in found[1]
    assert not found[2]


def test_unknown_models_are_predicted_without_their_exchange(tmp_path):
    from plan_scaling import Shares, scalings
    from scaling_rows import scaling_pairs

    header = ["GPUs", "Throughput - FP32", "Throughput - mixed precision"]
    rows = [["1", "10", "20"], ["8", "75", "130"]]
    pairs, _ = scaling_pairs(tables(tmp_path, ("Detection/Unheard", header, rows)))
    single, mixed = scalings(pairs)
    known = Shares.shipped()
    assert single.predicted == pytest.approx(1 / (1 + known.images))
    assert mixed.predicted == pytest.approx(1 / (1 + known.images * known.mixed))
    assert mixed.low < mixed.predicted < mixed.high


def test_closed_form_is_the_planner():
    from plan_scaling import Shares, planned_efficiency
    from scaling_rows import ScalingPair

    for gpu in ("V100-SXM", "A100-80GB-SXM"):
        for mixed in (True, False):
            for images in (True, False):
                pair = ScalingPair("one", "code", gpu, mixed, 0.9, None, 3e8, 2e5, images)
                assert Shares.shipped().efficiency(pair) == pytest.approx(planned_efficiency(pair))


def test_constants_of_a_left_out_model_come_from_the_others():
    from plan_scaling import scalings
    from scaling_rows import ScalingPair

    slow = [ScalingPair("slow", "a", "V100-SXM", True, 1 / 1.04, None, None, None, False)] * 3
    fast = [ScalingPair("fast", "b", "V100-SXM", True, 1 / 1.005, None, None, None, False)] * 3
    found = scalings([*slow, *fast])
    assert found[0].other_models == pytest.approx(1 / 1.005)
    assert found[-1].other_models == pytest.approx(1 / 1.04)
