"""Several clusters compared: the order, the sentence, and clusters that cannot be planned for."""

import json

import pytest

from skyline.cli.main import main
from skyline.interval import Interval
from skyline.plan.strategy import Strategy
from skyline.report.cluster_offers import no_offer, offer_of, offers_of
from skyline.report.pages.cluster_offers import verdict
from skyline.report.plan_report import PLAN_SCHEMA, PlanReport, PlanRow


def _row(rate, usd=None, *, label="ddp 8", objection="", whatifs=()):
    hours = Interval(1e3 / rate, 0.9e3 / rate, 1.1e3 / rate)
    cost = None if usd is None else Interval(usd, 0.9 * usd, 1.1 * usd)
    exact = Interval.exact(1.0)
    return PlanRow(
        1, label, 8, Strategy(), exact, Interval(rate, 0.9 * rate, 1.1 * rate), 0.4, exact, {}, {}, "computation", 1.0,
        hours, cost, objection, "", whatifs,
    )  # fmt: skip


def _report(cluster, *rows, advice=""):
    return PlanReport(
        PLAN_SCHEMA, "modelled", "net", "samples", cluster, "A100", "", 9, 9, {}, (), advice, rows
    )


def test_the_cheapest_that_meets_the_terms_stands_first():
    found = offers_of(
        [
            _report("late", _row(10, 50, objection="takes 100 h")),
            _report("dear", _row(90, 300)),
            _report("cheap", _row(30, 120), _row(40, 100)),
            _report("none", advice="No strategy fits."),
        ]
    )
    assert [one.cluster for one in found.offers] == ["cheap", "dear", "late", "none"]
    assert found.offers[0].row.usd.value == 100


def test_without_prices_the_fastest_stands_first():
    found = offers_of([_report("slow", _row(10)), _report("fast", _row(90))])
    assert verdict(found, None)[0] == "Fastest: fast with ddp 8 on 8 GPUs in 11.1 h."


def test_the_sentence_names_the_cost_and_the_command():
    found = offers_of(
        [_report("a", _row(50, 100, whatifs=("data_parallel=8",))), _report("b", _row(90, 300))]
    )
    assert verdict(found, "train.py") == (
        "Cheapest: a with ddp 8 on 8 GPUs, $100 (90 to 110) in 20.0 h.",
        "The code: skyline apply train.py data_parallel=8",
    )
    assert verdict(found, "my train.py", ("config/small.py", "--name=a b"))[-1] == (
        "The code: skyline apply 'my train.py' data_parallel=8 config/small.py '--name=a b'"
    )


def test_the_best_strategy_that_is_written_stands_beside_one_that_is_not():
    report = _report("a", _row(60, 100, label="fsdp 8"), _row(50, 120, whatifs=("data_parallel=8",)))
    assert offer_of(report).writable is report.rows[1]
    said = verdict(offers_of([report]), "train.py")[-1]
    assert said.startswith("Skyline writes the code of ddp 8, $120")
    assert said.endswith("skyline apply train.py data_parallel=8")


def test_of_equal_prices_the_strategy_with_code_is_the_offer():
    report = _report("a", _row(60, 100, label="zero2 8"), _row(59.8, 100.3, whatifs=("data_parallel=8",)))
    offer = offer_of(report)
    assert offer.row is offer.writable is report.rows[1]
    assert verdict(offers_of([report]), "train.py")[-1].startswith(
        "The code: skyline apply train.py data_parallel=8"
    )


def test_a_cluster_within_the_range_is_as_good():
    near = offers_of([_report("a", _row(50, 100)), _report("b", _row(50, 115))])
    assert "b is equally good within the ranges." in verdict(near, None)
    far = offers_of([_report("a", _row(50, 100)), _report("b", _row(50, 130))])
    assert len(verdict(far, None)) == 1


@pytest.mark.parametrize(
    ("reports", "sentence"),
    [
        ([_report("a", advice="no")], "No cluster has a strategy that fits."),
        (
            [_report("a", _row(1, 5, objection="takes 9 h"))],
            "No cluster meets the terms. The nearest is a: the training takes 9 h.",
        ),
    ],
)
def test_nothing_that_fits_is_said(reports, sentence):
    assert verdict(offers_of(reports, [no_offer("b", "T4", "no price")]), "train.py") == (sentence,)


def test_the_command_compares_clusters_and_keeps_those_that_fail(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    target = tmp_path / "offers.json"
    words = ["plan", "--model", "gpt2", "--cluster", "dgx-a100,p4d.24xlarge,g4dn.12xlarge", "--gpus", "4"]
    assert main([*words, "--tokens", "1B", "--budget", "$900", "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "Cheapest: " in printed
    assert "dgx-a100 (A100-80GB-SXM): the price of dgx-a100 is not known" in printed
    offers = json.loads(target.read_bytes())["offers"]
    assert {one["cluster"] for one in offers} == {"dgx-a100", "p4d.24xlarge", "g4dn.12xlarge"}
    assert offers[0]["row"]["usd"]["value"] <= offers[1]["row"]["usd"]["value"]
    assert offers[2]["row"] is None


def test_a_timeline_needs_one_cluster(capsys):
    words = ["plan", "--model", "gpt2", "--cluster", "dgx-a100,dgx-h100", "--perfetto", "1", "step.json.gz"]
    assert main(words) == 2
    assert "Name one cluster" in capsys.readouterr().err
