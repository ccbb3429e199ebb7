"""Placement is optimal: on random graphs its cost is the least of all assignments.

The cost is computed here from its definition, copy by copy, without a network.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import pytest

from relayvm.compiler.device_placement.cut import ON_HOST, ON_TARGET, CutProblem, Region, Value
from relayvm.compiler.device_placement.min_cut import Network

Cost = tuple[tuple[int, int, int], ...]


def plus(*costs: Cost) -> Cost:
    return tuple(tuple(map(sum, zip(*rows, strict=True))) for rows in zip(*costs, strict=True))


def cheapest(value: Value, host: list[bool], region: Region, price: Callable[[Region], Cost]) -> Cost:
    """The cost of the copies of ``value`` for its uses in ``region`` and in the inner regions with uses."""
    inside = [r for r in value.regions() if next((o for o in around(r) if o in value.regions()), None) is region]
    here = price(region)
    if any(host[item] != host[value.producer] for item in value.regions()[region]):
        return here
    return min(here, plus(nothing(here), *(cheapest(value, host, r, price) for r in inside)))


def around(region: Region) -> Iterator[Region]:
    """The enclosing regions of ``region``, the innermost first."""
    while region.outer is not None:
        region = region.outer
        yield region


def nothing(like: Cost) -> Cost:
    return ((0, 0, 0),) * len(like)


def cost(problem: CutProblem, host: list[bool]) -> Cost:
    """Per rank, the highest first: copies to the host, bytes copied, copies."""
    ranks = sorted({r.rank for v in problem.values for r, _ in v.uses}, reverse=True)
    total: Cost = ((0, 0, 0),) * len(ranks)
    for v in problem.values:
        row = (int(not host[v.producer]), v.nbytes, 1)
        price = lambda region, row=row: tuple(row if r == region.rank else (0, 0, 0) for r in ranks)  # noqa: E731
        outermost = [r for r in v.regions() if not any(o in v.regions() for o in around(r))]
        total = plus(total, *(cheapest(v, host, r, price) for r in outermost))
    return total


def assignments(problem: CutProblem) -> list[list[bool]]:
    """Every assignment of devices to the items."""
    free = problem.n_items - 2
    every = ([True, False, *sides] for sides in itertools.product([True, False], repeat=free))
    tied = (host for host in every if all(host[a] == host[b] for a, b in problem.ties))
    return [host for host in tied if all(host[b] for a, b in problem.following if host[a])]


def random_crossings(seed: int) -> CutProblem:
    """Up to 7 items, with values of few distinct sizes so that ties happen, in nested regions of any rank."""
    rng = random.Random(seed)
    problem = CutProblem()
    items = [ON_HOST, ON_TARGET, *(problem.item() for _ in range(rng.randint(0, 7)))]
    regions = [Region(rng.choice([0, 0, 1]))]
    for _ in range(rng.choice([0, 0, 1, 3])):
        outer = rng.choice([*regions, None])
        rank = outer.rank if outer else 0
        regions.append(Region(rank + rng.choice([-1, 0, 1]), outer))
    for _ in range(rng.randint(0, 9)):
        value = problem.value(rng.choice(items), rng.choice([0, 1, 4, 8, 8, 16, 1024]))
        for _ in range(rng.randint(0, 4)):
            value.use(rng.choice(regions), rng.choice(items))
    if rng.random() < 0.2:
        problem.tie(rng.choice(items[2:] or items[:1]), rng.choice(items[2:] or items[:1]))
    for _ in range(rng.choice([0, 0, 1, 2]) if items[2:] else 0):
        problem.follow(rng.choice(items[2:]), rng.choice(items))
    return problem


@pytest.mark.lengthy(block=[0, 1, 2])
@pytest.mark.split(2)
@pytest.mark.parametrize("block", range(8))
def test_no_assignment_is_better(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        problem = random_crossings(seed)
        found = problem.solve()
        possible = assignments(problem)
        assert found in possible, seed
        best = min(cost(problem, host) for host in possible)
        assert cost(problem, found) == best, seed
        # among the best cuts, the cut with the fewest items on the host
        fewest = min(sum(host) for host in possible if cost(problem, host) == best)
        assert sum(found) == fewest, seed


def test_random_graphs_are_not_all_trivial() -> None:
    found = [(c, c.solve()) for c in map(random_crossings, range(800))]
    moved = [host for _, host in found if any(host[2:]) and not all(host[2:])]
    paid = [1 for c, host in found if any(any(row) for row in cost(c, host))]
    assert len(moved) > 100 and len(paid) > 100


def test_a_value_used_twice_on_the_other_side_is_paid_once() -> None:
    problem, region = CutProblem(), Region()
    producer = problem.item()
    problem.value(ON_HOST, 12).use(region, producer)
    value = problem.value(producer, 8)
    for _ in range(2):
        value.use(region, ON_TARGET)
    # 12 bytes in, or 8 bytes out once
    assert problem.solve() == [True, False, True]


def test_capacities_may_have_any_size() -> None:
    network = Network(4)
    network.edge(0, 2, 10**40)
    network.edge(2, 3, 10**40 - 1)
    network.edge(3, 1, 10**40)
    assert network.source_side(0, 1) == [True, False, True, False]


def test_no_edges_no_flow() -> None:
    assert Network(2).source_side(0, 1) == [True, False]


def test_a_large_graph_is_solved_without_recursion() -> None:
    problem, region = CutProblem(), Region()
    before = ON_HOST
    for _ in range(3000):
        item = problem.item()
        problem.value(before, 8).use(region, item)
        before = item
    problem.value(before, 4).use(region, ON_TARGET)
    assert all(problem.solve()[2:])
