from __future__ import annotations

from dataclasses import replace

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.analysis.rewrites import Rewrites
from skyline.report.build import whatif_report
from skyline.trace.facts import CallFact, ModuleFact, TorchSettings
from skyline.whatif.question import Choice, Question


def test_a_change_with_a_rewrite_is_available(profile):
    assert Rewrites(profile).availability([("fused_optimizer", "")]) == ("available", None)


def test_a_change_without_a_rewrite_says_so(profile):
    assert Rewrites(profile).availability([("teleport", "")]) == ("none", None)


def test_sources_that_were_not_saved_are_a_reason(profile):
    answer, reason = Rewrites(replace(profile, sources=())).availability([("num_workers", "2")])
    assert answer == "refused"
    assert "train.py is not among the sources" in reason


def test_the_part_that_is_refused_is_named(profile):
    refused = replace(profile, knobs=replace(profile.knobs, candidates=(), tried=("nothing found",)))
    estimated = estimate(analyse(refused), Question(32, (Choice("fused_optimizer"),)))
    assert estimated.rewrite == "refused"
    assert estimated.rewrite_reason.startswith("batch_size: ")


def with_source(profile, old, new):
    (source,) = profile.sources
    return replace(profile, sources=(replace(source, text=source.text.replace(old, new)),))


def test_what_the_code_has_already_is_listed_with_its_value(profile):
    fused = with_source(profile, "parameters())", "parameters(), fused=True)")
    fused = replace(fused, optimizers=(replace(fused.optimizers[0], options={"fused": True}),))
    answer = next(each for each in whatif_report(analyse(fused)).estimates if each.name == "fused_optimizer")
    assert (answer.present, answer.removal, answer.removal_reason) == ("fused", "available", None)
    assert not answer.applicable
    plain = {each.name: each for each in whatif_report(analyse(profile)).estimates}
    assert (plain["fused_optimizer"].present, plain["fused_optimizer"].removal) == (None, "none")


def test_another_value_of_what_is_there_may_still_be_asked_for(profile):
    worked = with_source(profile, "batch_size=16)", "batch_size=16, num_workers=1)")
    worked = replace(worked, loaders=(replace(worked.loaders[0], num_workers=1),))
    answer = next(each for each in whatif_report(analyse(worked)).estimates if each.name == "num_workers")
    assert (answer.present, answer.removal) == ("1", "available")


ON_A_CONDITION = """if flag:
    torch.set_float32_matmul_precision('high')
    torch.backends.cudnn.benchmark = True
    model = model.to(memory_format=torch.channels_last)
    torch.cuda.make_graphed_callables(model, sample)
for batch"""
"""Changes whose presence in the run is recorded."""


def conv(layout: bool | None, name: str = "Conv2d") -> ModuleFact:
    return ModuleFact("Net.conv", name, True, 432, True, {}, 1.0, channels_last=layout)


def presences(profile) -> dict[str, str]:
    answers = whatif_report(analyse(profile)).estimates
    names = ("tf32", "cudnn_benchmark", "channels_last", "cuda_graphs")
    return {each.name: each.present for each in answers if each.name in names and each.present is not None}


def test_what_stands_on_a_condition_is_in_the_code_where_the_run_had_it(gpu_profile):
    named = with_source(gpu_profile, "for batch", ON_A_CONDITION)
    found = presences(named)
    assert found == dict.fromkeys(("tf32", "cudnn_benchmark", "channels_last", "cuda_graphs"), "on")
    had = replace(
        named,
        settings=TorchSettings(matmul_precision="high", cudnn_benchmark=True),
        modules=(conv(True),),
        calls=(CallFact("backward", 1.0, None, {}), CallFact("compile", 0.0, None, {})),
    )
    assert presences(had) == found


def test_what_the_run_did_without_is_not_called_in_the_code(gpu_profile):
    named = with_source(gpu_profile, "for batch", ON_A_CONDITION)
    without = replace(
        named,
        settings=TorchSettings(matmul_precision="highest", cudnn_benchmark=False),
        modules=(conv(False),),
        calls=(CallFact("backward", 1.0, None, {}),),
    )
    assert presences(without) == {}
    # Of a model without convolutions over images nothing can lie in their layout.
    assert "channels_last" not in presences(replace(named, modules=(conv(None, "Conv1D"),)))
    # The weights of one that is sharded are flat.
    assert "channels_last" in presences(replace(named, modules=(conv(None),)))


def test_a_change_that_cannot_be_taken_out_says_why_and_where(profile):
    compiled = with_source(profile, "for batch", "if flag: model = torch.compile(model)\nfor batch")
    compiled = replace(compiled, calls=(CallFact("compile", 0.0, None, {}),))
    answer = next(each for each in whatif_report(analyse(compiled)).estimates if each.name == "compile")
    assert (answer.present, answer.removal) == ("default", "refused")
    assert (
        "on a condition (/project/train.py:4). Set the option that makes the condition false"
        in answer.removal_reason
    )


def test_answers_to_questions_do_not_look_for_it(profile):
    fused = with_source(profile, "parameters())", "parameters(), fused=True)")
    question = Question(choices=(Choice("num_workers", "1"), Choice("fused_optimizer")))
    report = whatif_report(analyse(fused), question)
    assert [each.present for each in (*report.estimates, report.combined)] == [None, None, None]
