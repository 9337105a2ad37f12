"""The curve is what a simulation says at each age."""

from dataclasses import replace
from itertools import pairwise

import pytest

from lakesweep.model.policy import INT_MAX
from lakesweep.model.simulation import CurvePoint
from lakesweep.operations.simulation.applied import apply
from lakesweep.operations.simulation.policies import Policy
from lakesweep.operations.simulation.rules.thinning import thinned_peaks, thinned_steps
from lakesweep.operations.simulation.scene import Scene, read_scene
from lakesweep.operations.simulation.simulate import curve, simulated
from lakesweep.runs.parameters.age import Age
from tests.support.simulated_tables import random_table

PRESENT = Policy("present policy")


def at(scene: Scene, age_ms: int) -> tuple[int, int]:
    """Return snapshots and bytes that a simulation of one age keeps."""
    case = simulated(scene, [Policy("age", retain_max=INT_MAX, older_than=Age(age_ms))], None).cases[0]
    return case.kept.snapshots, case.kept.bytes


@pytest.mark.parametrize("seed", range(20))
def test_each_age(seed: int) -> None:
    """At each step, right before the next one, and beyond the last."""
    scene = read_scene(random_table(seed).maintainer().table)
    points = list(curve(scene, apply(scene, PRESENT)))
    assert points[0].age_ms == 0
    assert points == sorted(points, key=lambda point: point.age_ms)
    ends = [point.age_ms - 1 for point in points[1:]] + [points[-1].age_ms + 10**9]
    for point, end in zip(points, ends, strict=True):
        assert at(scene, point.age_ms) == at(scene, end) == (point.snapshots, point.bytes), (seed, point)


@pytest.mark.parametrize("seed", range(20))
def test_each_age_under_a_fleet_policy(seed: int) -> None:
    """Minimums and protected commit users hold for each age."""
    world = random_table(seed)
    rule = {"tables": "memory://bucket", "mode": "delete", "min_snapshots": 3, "protect_commit_users": ["u0", "u2"]}
    scene = read_scene(world.maintainer(policy=world.fleet_policy(rule), open_store=world.open_store).table)
    assert scene.ruling is not None and scene.ruling.rule is not None
    for point in curve(scene, apply(scene, PRESENT)):
        assert at(scene, point.age_ms) == (point.snapshots, point.bytes), (seed, point)


def test_few_points_show_the_shape() -> None:
    """The ends stay, all are points of the line, and few of its height lies between two of them."""
    line = [CurvePoint(age, age, age * age // 7, 0.0) for age in range(5000)]
    found = thinned_steps(line, lambda point: point.bytes, 200)
    assert len(found) <= 200 and found[0] == line[0] and found[-1] == line[-1]
    assert set(found) <= set(line)
    highest = max(later.bytes - point.bytes for point, later in pairwise(line))
    assert max(later.bytes - point.bytes for point, later in pairwise(found)) <= line[-1].bytes // 198 + highest
    assert thinned_steps(line[:200], lambda point: point.bytes, 200) == tuple(line[:200])
    flat = [replace(point, bytes=5) for point in line]
    assert thinned_steps(flat, lambda point: point.bytes, 200) == (flat[0], flat[-1])


def test_few_points_show_the_peak() -> None:
    """Whatever the number of points."""
    for count in (0, 1, 199, 200, 201, 399, 1001):
        line = [number * 7919 % 1009 for number in range(count)]
        found = thinned_peaks(line, lambda each: each, 200)
        assert len(found) <= 200 and max(found, default=None) == max(line, default=None)
