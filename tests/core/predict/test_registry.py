import pytest

from skyline.errors import UsageError
from skyline.predict import registry


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def installed(monkeypatch):
    def install(*names: str) -> None:
        monkeypatch.setattr(registry, "predictors", lambda: {name: Named(name) for name in names})

    return install


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("learned", "mixed", "roofline"), "mixed"),
        (("learned", "roofline", "another"), "learned"),
        (("roofline", "another"), "roofline"),
        (("mine",), "mine"),
    ],
)
def test_the_preferred_one_of_those_installed_is_asked(installed, names, chosen):
    installed(*names)
    assert registry.predictor_named().name == chosen


def test_one_can_be_asked_for_by_name(installed):
    installed("learned", "roofline")
    assert registry.predictor_named("roofline").name == "roofline"
    with pytest.raises(UsageError, match="no predictor 'crystal'") as raised:
        registry.predictor_named("crystal")
    assert "learned, roofline" in raised.value.hint


def test_without_any_the_hint_says_what_to_do(installed):
    installed()
    with pytest.raises(UsageError, match="no predictor of operator times") as raised:
        registry.predictor_named()
    assert "Reinstall" in raised.value.hint


@pytest.mark.parametrize(
    ("names", "chosen"), [(("learned", "roofline"), "roofline"), (("mine",), "mine"), ((), None)]
)
def test_formats_are_compared_within_one_model(installed, names, chosen):
    installed(*names)
    found = registry.across_formats()
    assert (found and found.name) == chosen
