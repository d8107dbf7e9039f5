"""The least-cost flow, against every flow of small networks, and against a linear program of large ones."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from mechanisms.topdown.rounding import cheapest_flow
from tests.depth import examples

Network = tuple[list[tuple[int, int, int, int]], list[int]]
"""Of each arc: tail, head, stage and cost; and the balances of the nodes."""


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Small networks with loops, parallel arcs and equal costs, most of which have a flow."""
    nodes = draw(st.integers(1, 5))
    node = st.integers(0, nodes - 1)
    arcs = draw(st.lists(st.tuples(node, node, st.integers(0, 2), st.integers(-3, 3)), max_size=9))
    balances = [0] * nodes
    for tail, head, _, _ in draw(st.lists(st.sampled_from(arcs), unique=True)) if arcs else []:
        balances[tail] += 1
        balances[head] -= 1
    balances[draw(node)] += draw(st.sampled_from([0, 0, 0, 1]))
    return arcs, balances


def solved(network: Network) -> NDArray[np.int64] | None:
    arcs, balances = network
    tails, heads, stages, costs = np.array(arcs, dtype=np.int64).reshape(-1, 4).T.copy()
    return cheapest_flow(tails, heads, stages, costs, np.array(balances, dtype=np.int64))


def met(network: Network, flow: tuple[int, ...]) -> bool:
    arcs, balances = network
    left = list(balances)
    for (tail, head, _, _), one in zip(arcs, flow, strict=True):
        left[tail] -= one
        left[head] += one
    return not any(left[1:])


def costs(network: Network, flow: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(
        sum(cost * one for (_, _, stage, cost), one in zip(network[0], flow, strict=True) if stage == now)
        for now in range(3)
    )


@pytest.mark.deep
@settings(max_examples=examples(400), deadline=None)
@given(networks())
@example(([(0, 1, 0, 5)], [0, 2]))
@example(([], [0, 0]))
def test_no_flow_is_cheaper_in_the_order_of_stages(network: Network) -> None:
    flows = [flow for flow in product((0, 1), repeat=len(network[0])) if met(network, flow)]
    found = solved(network)
    if found is None:
        assert not flows
        return
    flow = tuple(map(int, found))
    assert flow in flows
    assert costs(network, flow) == min(costs(network, each) for each in flows)


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_large_networks_have_the_costs_of_linear_programs(seed: int) -> None:
    """Stage by stage, with the costs of earlier stages as further constraints; costs are few, so that many are tied."""
    random = np.random.default_rng(seed)
    nodes, arcs = 60, 400
    tails, heads = random.integers(0, nodes, arcs), random.integers(0, nodes, arcs)
    stages, costs = random.integers(0, 3, arcs), random.integers(-4, 5, arcs)
    incidence = np.zeros((nodes, arcs))
    np.add.at(incidence, (tails, np.arange(arcs)), 1)
    np.add.at(incidence, (heads, np.arange(arcs)), -1)
    balances = (incidence @ random.integers(0, 2, arcs)).astype(np.int64)
    found = cheapest_flow(tails, heads, stages, costs, balances)
    assert found is not None
    assert set(found.tolist()) <= {0, 1}
    assert np.array_equal((incidence @ found)[1:], balances[1:])
    rows, limits = incidence[1:], balances[1:].astype(float)
    for stage in range(3):
        cost = np.where(stages == stage, costs, 0)
        least = linprog(cost, A_eq=rows, b_eq=limits, bounds=(0, 1))
        assert cost @ found == round(least.fun)
        rows, limits = np.vstack([rows, cost]), np.append(limits, round(least.fun))
