from __future__ import annotations

import gc

import torch
from torch.utils.data import DataLoader, TensorDataset

from skyline.capture.child.observed_loaders import ObservedLoaders

LINE = {"file": "train.py", "line": 7, "function": "main"}


def _loader(observed: ObservedLoaders, samples: int = 12, **options: object) -> DataLoader[object]:
    loader = DataLoader(TensorDataset(torch.arange(samples)), batch_size=4, **options)  # type: ignore[arg-type]
    observed.created(loader, LINE)
    return loader


def _read(observed: ObservedLoaders, iterator: object, first_iteration: int = 0) -> None:
    for number, _ in enumerate(iterator):  # type: ignore[arg-type,var-annotated]
        observed.fetched(iterator, first_iteration + number)


def test_a_loader_of_which_only_the_iterator_lives_is_counted() -> None:
    observed = ObservedLoaders()
    _read(observed, iter(_loader(observed)))
    (fact,) = observed.facts([4])
    assert (fact["fetches"], fact["iterations"], fact["batch_size"], fact["dataset_size"]) == (3, 3, 4, 12)
    assert fact["created_line"] == LINE


def test_batches_of_a_wrapper_count_for_the_loader_of_the_script() -> None:
    """As ``accelerator.prepare`` makes another loader over the same sampler of batches."""
    observed = ObservedLoaders()
    own = _loader(observed)
    wrapped = DataLoader(own.dataset, batch_sampler=own.batch_sampler)
    observed.created(wrapped, {"file": "train.py", "line": 9, "function": "main"})
    _read(observed, iter(wrapped))
    (fact,) = observed.facts([4])
    assert (fact["fetches"], fact["batch_size"], fact["created_line"]) == (3, 4, LINE)


def test_loaders_made_anew_each_epoch_are_one() -> None:
    observed = ObservedLoaders()
    for epoch in range(3):
        _read(observed, iter(_loader(observed)), 3 * epoch)
        gc.collect()
    (fact,) = observed.facts([4])
    assert (fact["fetches"], fact["iterations"]) == (9, 9)
    assert observed.fetches == 9


def test_two_loaders_of_one_line_that_live_side_by_side_stay_two() -> None:
    observed = ObservedLoaders()
    training, validation = _loader(observed), _loader(observed)
    _read(observed, iter(training))
    _read(observed, iter(validation), 2)
    assert [fact["fetches"] for fact in observed.facts([4])] == [3, 3]


def test_a_loader_with_other_settings_is_another() -> None:
    observed = ObservedLoaders()
    _read(observed, iter(_loader(observed)))
    _read(observed, iter(_loader(observed, samples=8)))
    assert [fact["dataset_size"] for fact in observed.facts([4])] == [12, 8]


def test_the_size_of_a_batch_sampler_counts_where_a_batch_had_it() -> None:
    class Sampler:
        batch_size = 4

        def __iter__(self) -> object:
            return iter([[0, 1, 2, 3], [4, 5, 6, 7]])

    observed = ObservedLoaders()
    loader = DataLoader(TensorDataset(torch.arange(8)), batch_sampler=Sampler())  # type: ignore[arg-type]
    observed.created(loader, LINE)
    _read(observed, iter(loader))
    assert observed.facts([4])[0]["batch_size"] == 4
    assert observed.facts([2])[0]["batch_size"] is None


def test_a_data_set_whose_length_fails_is_no_failure_of_the_script() -> None:
    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> object:  # type: ignore[override]
            return iter(range(8))

        def __len__(self) -> int:
            raise ValueError("not known")

    observed = ObservedLoaders()
    loader = DataLoader(Stream(), batch_size=None)
    observed.created(loader, LINE)
    iterator = iter(loader)
    next(iterator)
    observed.fetched(iterator, 0)
    (fact,) = observed.facts([])
    assert (fact["dataset_size"], fact["batch_size"], fact["fetches"]) == (None, None, 1)


def test_batches_of_random_length_have_a_mean() -> None:
    class Sampler:
        num_samples, sample_rate = 12, 1 / 3

        def __iter__(self) -> object:
            return iter([[0, 1, 2], [4, 5, 6, 7, 8]])

    observed = ObservedLoaders()
    loader = DataLoader(TensorDataset(torch.arange(12)), batch_sampler=Sampler())  # type: ignore[arg-type]
    observed.created(loader, LINE)
    _read(observed, iter(loader))
    assert observed.facts([3, 5])[0]["batch_size"] == 4
